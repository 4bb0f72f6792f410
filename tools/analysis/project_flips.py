"""``rebnn flips``, from a clone."""

from rebnn_mm.cli.flips import main

if __name__ == '__main__':
    main()
