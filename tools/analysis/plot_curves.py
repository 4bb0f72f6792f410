"""``rebnn curves``, from a clone."""

from rebnn_mm.cli.curves import main

if __name__ == '__main__':
    main()
