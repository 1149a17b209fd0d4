"""The paper's figures and questions, one module each: `python -m experiments` lists them."""
