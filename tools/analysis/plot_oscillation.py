"""``rebnn oscillation``, from a clone."""

from rebnn_mm.cli.oscillation import main

if __name__ == '__main__':
    main()
