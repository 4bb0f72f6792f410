"""``rebnn test``, from a clone."""

from rebnn_mm.cli.test import main

if __name__ == '__main__':
    main()
