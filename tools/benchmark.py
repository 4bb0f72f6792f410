"""``rebnn benchmark``, from a clone."""

from rebnn_mm.cli.benchmark import main

if __name__ == '__main__':
    main()
