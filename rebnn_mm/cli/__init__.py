"""The subcommands of ``rebnn``, each a module with ``main``; the scripts in ``tools`` call the same."""
