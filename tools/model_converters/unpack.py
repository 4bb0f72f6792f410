"""``rebnn unpack``, from a clone."""

from rebnn_mm.cli.unpack import main

if __name__ == '__main__':
    main()
