"""``rebnn train``, from a clone."""

from rebnn_mm.cli.train import main

if __name__ == '__main__':
    main()
