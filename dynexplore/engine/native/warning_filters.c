/* The number that says which warnings were shown already.

   Every module remembers the warnings that it gave (`__warningregistry__`), and with them the number of the filters at
   that time.  Where the number is another one now, the memory is emptied (Python/_warnings.c, already_warned), so whoever
   ignores a warning for a moment (`warnings.catch_warnings`) has all of them shown once more.  Python code can count the
   number on (`_warnings._filters_mutated`) and do nothing else with it; here it can be read and put back.

   Comes in: a number.  Goes out: the number.  graph/warning_registry.py says when.
   PyTorch has no such thing: a compilation has warnings shown once more. */

#include "native.h"

static PyObject *
read_filters_version(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing))
{
    return PyLong_FromLong(*filters_version());
}

static PyObject *
set_filters_version(PyObject *Py_UNUSED(module), PyObject *number)
{
    long version = PyLong_AsLong(number);
    if (version == -1 && PyErr_Occurred()) {
        return NULL;
    }
    *filters_version() = version;
    Py_RETURN_NONE;
}

PyMethodDef warning_functions[] = {
    {"filters_version", read_filters_version, METH_NOARGS, "filters_version() -> int: how often the filters of warnings changed."},
    {"set_filters_version", set_filters_version, METH_O, "set_filters_version(number): say so."},
    {NULL, NULL, 0, NULL},
};
