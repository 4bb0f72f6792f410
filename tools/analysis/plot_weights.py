"""``rebnn weights``, from a clone."""

from rebnn_mm.cli.weights import main

if __name__ == '__main__':
    main()
