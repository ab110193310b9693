"""Settings: what the operator chooses, by flag, environment variable, config file or keyword.

It owns each *option*, declared once as a field with its kind and its words: in `parts`, or in a feature. It is given
what was written: `options` finds the value of each, flag first, then environment, then file, then default. It hands on
settings that fit together (those of `serve` are `settings.Settings`), and an `Agent` for each agent behind the proxy.
"""
