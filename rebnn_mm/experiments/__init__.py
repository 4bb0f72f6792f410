"""Lists of training runs: what is planned, what is done, and the tables and figures made of it."""
