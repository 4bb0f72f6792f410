"""``rebnn detect``, from a clone."""

from rebnn_mm.cli.detect import main

if __name__ == '__main__':
    main()
