"""``rebnn confusion``, from a clone."""

from rebnn_mm.cli.confusion import main

if __name__ == '__main__':
    main()
