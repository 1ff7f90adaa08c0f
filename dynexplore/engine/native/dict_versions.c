/* Versions of dictionaries, for Pythons that have none of their own (3.14 took `ma_version_tag` away).

   Guards ask "was anything written to this dictionary since?" of hundreds of dictionaries in each call.  So a dictionary that is
   asked gets a number, which stands in the dictionary itself, in the bits of its watcher tag that CPython with a GIL leaves alone;
   and it is watched: the first write takes the number away and ends the watch, so that later writes cost nothing until somebody asks
   again.  One watcher of the eight of an interpreter does for all dictionaries, and nobody else has its number.  Where none is left
   there are no versions: guards then look at what stands in the dictionaries, in each call.

   Comes in: a dictionary.  Goes out: `dict_version` of compat.h.
   PyTorch does the same job in torch/csrc/dynamo/guards.cpp (dict_version_watch_callback). */

#include "native.h"

#if DICT_VERSIONS_BY_WATCHER

static int watcher = -1;
static uint64_t last_version;

static int
written_to(PyDict_WatchEvent Py_UNUSED(event), PyObject *dictionary, PyObject *Py_UNUSED(key), PyObject *Py_UNUSED(value))
{
    ((PyDictObject *)dictionary)->_ma_watcher_tag &= DICT_WATCHER_AND_MODIFICATION_MASK & ~((uint64_t)1 << watcher);
    return 0;
}

COLD uint64_t
new_dict_version(PyObject *dictionary)
{
    if (watcher < 0) {
        return 0;
    }
    last_version += DICT_VERSION_INCREMENT;
    ((PyDictObject *)dictionary)->_ma_watcher_tag |= last_version | ((uint64_t)1 << watcher);
    return last_version;
}

/* A Python that keeps something else in those bits would lose it, or our number: then there are no versions. */
static bool
version_changes_only_on_write(void)
{
    PyObject *dictionary = PyDict_New();
    bool is_stable = false;
    if (dictionary != NULL && PyDict_SetItemString(dictionary, "key", Py_None) == 0) {
        uint64_t version = dict_version(dictionary);
        is_stable = version != 0 && dict_version(dictionary) == version && PyDict_SetItemString(dictionary, "key", Py_True) == 0
                && dict_version(dictionary) != version;
    }
    Py_XDECREF(dictionary);
    return is_stable;
}

static int
find_watcher(void)
{
    watcher = PyDict_AddWatcher(written_to);
    if (watcher >= 0 && !version_changes_only_on_write()) {
        PyDict_ClearWatcher(watcher);
        watcher = -1;
    }
    PyErr_Clear();              /* no watcher is left: no reason not to work */
    return 0;
}

#else

static int
find_watcher(void)
{
    return 0;
}

#endif

static PyObject *
dict_version_of(PyObject *Py_UNUSED(module), PyObject *dictionary)
{
    if (!PyDict_Check(dictionary)) {
        PyErr_Format(PyExc_TypeError, "dict_version() takes a dict, not %.100s", Py_TYPE(dictionary)->tp_name);
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(dict_version(dictionary));
}

static PyMethodDef version_functions[] = {
    {"dict_version", dict_version_of, METH_O,
     "dict_version(dictionary) -> int: the same as long as nothing was written to it; 0 when that cannot be told."},
    {NULL, NULL, 0, NULL},
};

int
init_dict_versions(PyObject *module)
{
    return find_watcher() < 0 ? -1 : PyModule_AddFunctions(module, version_functions);
}
