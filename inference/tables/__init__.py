"""Two tables as they are: columns of any kind, with holes, compared as wholes and one by one."""
