"""``rebnn export``, from a clone."""

from rebnn_mm.cli.export import main

if __name__ == '__main__':
    main()
