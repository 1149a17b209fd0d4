"""The paper's figures and questions, one module each: `python -m experiments` lists them."""

from highway_lab.start import refuse_parts

refuse_parts()
