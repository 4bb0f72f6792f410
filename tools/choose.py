"""``rebnn choose``, from a clone."""

from rebnn_mm.cli.choose import main

if __name__ == '__main__':
    main()
