"""``rebnn ops``, from a clone."""

from rebnn_mm.cli.ops import main

if __name__ == '__main__':
    main()
