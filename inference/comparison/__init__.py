"""Whether two samples differ, where, at what scale and by how much: one answer from one object."""
