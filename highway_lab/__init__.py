"""The machinery around the nets: configuration, data, training, jobs, logs, pictures. Imports point down only."""
