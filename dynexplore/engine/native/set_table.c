/* A copy of a set that iterates as the set itself does.

   The order of a set's members is that of its table, and the table depends on all that the set went through: its size
   before members were discarded, and which of two members with colliding hashes came first.  `set.copy()` builds another
   table.  Here the table itself is copied (Include/cpython/setobject.h), so that whatever is done to the copy afterwards
   has the order that it would have had in the set.  And what a frame leaves behind is filled with such a table.

   Comes in: a set or frozenset, or the description of a table.  Goes out: a set, or the description.
   variables/containers/set_.py applies the program's operations to the copy.
   PyTorch has no such thing: there the order is that of insertion. */

#include "native.h"

static bool
append_stored(PyObject *pairs, PyObject *key, Py_hash_t hash)
{
    PyObject *pair = Py_BuildValue("(On)", key, (Py_ssize_t)hash);
    bool is_appended = pair != NULL && PyList_Append(pairs, pair) == 0;
    Py_XDECREF(pair);
    return is_appended;
}

/* The members of a set, or the keys of a dict that are not all text, with the hash that each had when it was stored. */
static PyObject *
stored_hashes(PyObject *Py_UNUSED(module), PyObject *object)
{
    if (!PyAnySet_Check(object) && !PyDict_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a set or dict is expected");
        return NULL;
    }
    PyObject *pairs = PyList_New(0);
    bool is_complete = pairs != NULL;
    if (PyAnySet_Check(object)) {
        PySetObject *set = (PySetObject *)object;
        for (Py_ssize_t place = 0; is_complete && place <= set->mask; place++) {
            setentry *entry = &set->table[place];
            if (entry->key != NULL && entry->hash != -1) {
                is_complete = append_stored(pairs, entry->key, entry->hash);
            }
        }
    }
    else if (!dict_has_only_strings(object)) {
        PyDictKeysObject *keys = ((PyDictObject *)object)->ma_keys;
        PyDictKeyEntry *entries = DK_ENTRIES(keys);
        for (Py_ssize_t place = 0; is_complete && place < keys->dk_nentries; place++) {
            if (entries[place].me_value != NULL) {
                is_complete = append_stored(pairs, entries[place].me_key, entries[place].me_hash);
            }
        }
    }
    if (!is_complete) {
        Py_CLEAR(pairs);
    }
    return pairs;
}

static PyObject *
set_with_table_of(PyObject *Py_UNUSED(module), PyObject *other)
{
    if (!PyAnySet_Check(other)) {
        PyErr_SetString(PyExc_TypeError, "a set is expected");
        return NULL;
    }
    PySetObject *from = (PySetObject *)other;
    PySetObject *copy = (PySetObject *)PySet_New(NULL);
    if (copy == NULL) {
        return NULL;
    }
    size_t size = (size_t)from->mask + 1;
    setentry *table = copy->smalltable;
    if (size > PySet_MINSIZE) {
        table = PyMem_New(setentry, size);
        if (table == NULL) {
            Py_DECREF(copy);
            return PyErr_NoMemory();
        }
    }
    memcpy(table, from->table, size * sizeof(setentry));
    for (size_t place = 0; place < size; place++) {
        if (table[place].key != NULL && table[place].hash != -1) { /* -1: the place of a member that was discarded */
            Py_INCREF(table[place].key);
        }
    }
    copy->table = table;
    copy->fill = from->fill;
    copy->used = from->used;
    copy->mask = from->mask;
    copy->finger = from->finger;
    return (PyObject *)copy;
}

/* (mask, finger, the places of the members in order, the places of discarded members) */
static PyObject *
set_table_of(PyObject *Py_UNUSED(module), PyObject *object)
{
    if (!PyAnySet_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a set is expected");
        return NULL;
    }
    PySetObject *set = (PySetObject *)object;
    PyObject *members = PyList_New(0), *discarded = PyList_New(0);
    int failed = members == NULL || discarded == NULL;
    for (Py_ssize_t place = 0; !failed && place <= set->mask; place++) {
        setentry *entry = &set->table[place];
        if (entry->key != NULL) {
            PyObject *number = PyLong_FromSsize_t(place);
            failed = number == NULL || PyList_Append(entry->hash == -1 ? discarded : members, number) < 0;
            Py_XDECREF(number);
        }
    }
    PyObject *table = failed ? NULL : Py_BuildValue("(nnNN)", set->mask, set->finger, PyList_AsTuple(members), PyList_AsTuple(discarded));
    Py_XDECREF(members);
    Py_XDECREF(discarded);
    return table;
}

/* The place of a discarded member is marked with the object that CPython uses (`_PySet_Dummy`, which is not public): it is
   what a set holds after a member was discarded. */
static PyObject *
mark_of_discarded(void)
{
    static PyObject *mark = NULL;
    if (mark == NULL) {
        PyObject *set = PySet_New(NULL);
        if (set == NULL || PySet_Add(set, Py_None) < 0 || PySet_Discard(set, Py_None) < 0) {
            Py_XDECREF(set);
            return NULL;
        }
        for (Py_ssize_t place = 0; place <= ((PySetObject *)set)->mask; place++) {
            if (((PySetObject *)set)->table[place].key != NULL) {
                mark = ((PySetObject *)set)->table[place].key;
            }
        }
        Py_DECREF(set);
    }
    return mark;
}

static PyObject *
set_in_table(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t mask, finger;
    PyObject *places, *discarded, *mark = mark_of_discarded();
    if (count != 3 || !(PyAnySet_Check(args[0]) || args[0] == Py_None) || !PyTuple_Check(args[1]) || !PyTuple_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "set_in_table(set or None, members, table)");
        return NULL;
    }
    if (mark == NULL || !PyArg_ParseTuple(args[2], "nnO!O!", &mask, &finger, &PyTuple_Type, &places, &PyTuple_Type, &discarded)) {
        return NULL;
    }
    Py_ssize_t used = PyTuple_GET_SIZE(args[1]);
    PyObject *object = args[0] == Py_None ? PyFrozenSet_New(NULL) : Py_NewRef(args[0]);
    if (object == NULL) {
        return NULL;
    }
    PySetObject *set = (PySetObject *)object;
    if (PySet_Check(object)) {
        if (PySet_Clear(object) < 0) {
            goto failed;
        }
    } else if (set->fill != 0 || Py_REFCNT(object) != 1) {
        PyErr_SetString(PyExc_TypeError, "set_in_table: a frozenset that exists is not filled");
        goto failed;
    }
    if (set->table != set->smalltable || PyTuple_GET_SIZE(places) != used) {
        PyErr_SetString(PyExc_ValueError, "set_in_table: the members do not fit the table");
        goto failed;
    }
    Py_ssize_t size = mask + 1;
    setentry *table = PyMem_New(setentry, size);
    if (table == NULL) {
        PyErr_NoMemory();
        goto failed;
    }
    memset(table, 0, size * sizeof(setentry));
    Py_ssize_t filled = 0;
    for (; filled < used; filled++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(places, filled));
        PyObject *member = PyTuple_GET_ITEM(args[1], filled);
        Py_hash_t hash = place < 0 || place > mask ? -1 : PyObject_Hash(member);
        if (hash == -1) {
            break;
        }
        table[place].key = Py_NewRef(member);
        table[place].hash = hash;
    }
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(discarded); index++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(discarded, index));
        if (place >= 0 && place <= mask) {
            table[place].key = mark;
            table[place].hash = -1;
        }
    }
    if (filled < used || set->fill != 0) { /* a member that cannot be hashed; or its `__hash__` filled the set */
        for (Py_ssize_t place = 0; place <= mask; place++) {
            if (table[place].key != NULL && table[place].hash != -1) {
                Py_DECREF(table[place].key);
            }
        }
        PyMem_Free(table);
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "set_in_table: the members do not fit the table");
        }
        goto failed;
    }
    if (size <= PySet_MINSIZE) {
        memcpy(set->smalltable, table, size * sizeof(setentry));
        PyMem_Free(table);
    } else {
        set->table = table;
    }
    set->mask = mask;
    set->finger = finger;
    set->used = used;
    set->fill = used + PyTuple_GET_SIZE(discarded);
    return object;

failed:
    Py_DECREF(object);
    return NULL;
}

PyMethodDef set_functions[] = {
    {"stored_hashes", stored_hashes, METH_O,
     "stored_hashes(set or dict) -> list of (key, hash): with the hash that each had when it was stored; text keys are left out."},
    {"set_table_of", set_table_of, METH_O, "set_table_of(set) -> tuple: where its members stand, for set_in_table."},
    {"set_in_table", (PyCFunction)(void (*)(void))set_in_table, METH_FASTCALL,
     "set_in_table(set or None, members, table): fill the set (None: a new frozenset) with the members in such a table."},
    {"set_with_table_of", set_with_table_of, METH_O, "set_with_table_of(other) -> set: of the same members, in the same table."},
    {NULL, NULL, 0, NULL},
};
