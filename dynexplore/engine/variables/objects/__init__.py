"""Objects with attributes: classes, instances, descriptors, exceptions, Python modules and namespaces."""
