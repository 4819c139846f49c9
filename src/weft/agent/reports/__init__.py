"""How a job stands and how fast it trains, told to whoever asked for it.

A report never costs the training anything: it is sent beside it, and dropped where nobody hears.
Its fields are a contract with the operator and with drivers of other versions.
"""
