/* Every difference between the supported Python versions, and nothing else.

   The rest of the extension is written against the small vocabulary below: a frame has a code object, a function, a
   size and an instruction pointer; an evaluator can be asked for and set; a code object carries one extra pointer.
   CPython renamed or moved each of these between 3.11 and 3.14 (Include/internal/pycore_frame.h, pycore_interpframe.h).  Supporting another
   Python means adding a branch here, and only here.  No other C file may test PY_VERSION_HEX.

   PyTorch does the same job in torch/csrc/dynamo/cpython_defs.c and cpython_includes.h. */

#ifndef DYNEXPLORE_COMPAT_H
#define DYNEXPLORE_COMPAT_H

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE 1
#endif
#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE_MODULE 1
#include <Python.h>
#include <structmember.h>
#include <stdbool.h>
#include <stddef.h>
#if PY_VERSION_HEX >= 0x030E0000
#  include "internal/pycore_interpframe.h"
#  include "internal/pycore_stackref.h"
#else
#  include "internal/pycore_frame.h"
#endif
#include "internal/pycore_dict.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_object.h"

/* scripts/next_python.py asks what else a newer one has changed */
#if PY_VERSION_HEX < 0x030B0000 || (PY_VERSION_HEX >= 0x030F0000 && !defined(DYNEXPLORE_NEXT_PYTHON))
#  error "dynexplore's frame hook knows the frame layouts of CPython 3.11, 3.12, 3.13 and 3.14 only"
#endif
#ifdef Py_GIL_DISABLED
#  error "dynexplore needs the global interpreter lock; the free-threaded build of CPython is not supported"
#endif

#define PY_IS_311 (PY_VERSION_HEX < 0x030C0000)
#define PY_IS_312 (PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000)
#define PY_FROM_313 (PY_VERSION_HEX >= 0x030D0000)
#define PY_FROM_314 (PY_VERSION_HEX >= 0x030E0000)

typedef struct _PyInterpreterFrame Frame;
typedef _PyFrameEvalFunction Evaluator;

/* -- frames ----------------------------------------------------------------------------------------------------- */

static inline PyCodeObject *
frame_code(Frame *frame)
{
#if PY_FROM_314
    return (PyCodeObject *)PyStackRef_AsPyObjectBorrow(frame->f_executable);
#elif PY_FROM_313
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
}

static inline PyFunctionObject *
frame_function(Frame *frame)
{
#if PY_IS_311
    return frame->f_func;
#elif PY_FROM_314
    return (PyFunctionObject *)PyStackRef_AsPyObjectBorrow(frame->f_funcobj);
#else
    return (PyFunctionObject *)frame->f_funcobj;
#endif
}

/* Give the frame another function (its reference is taken over, the old one is released). */
static inline void
frame_set_function(Frame *frame, PyFunctionObject *function)
{
#if PY_FROM_314
    _PyStackRef old = frame->f_funcobj;
    frame->f_funcobj = PyStackRef_FromPyObjectSteal((PyObject *)function);
    PyStackRef_CLOSE(old);
#else
    PyFunctionObject *old = frame_function(frame);
#if PY_IS_311
    frame->f_func = function;
#else
    frame->f_funcobj = (PyObject *)function;
#endif
    Py_DECREF(old);
#endif
}

/* Size in words of a frame that runs `code`. */
static inline Py_ssize_t
frame_size(PyCodeObject *code)
{
#if PY_IS_311
    return (Py_ssize_t)code->co_nlocalsplus + code->co_stacksize + (Py_ssize_t)FRAME_SPECIALS_SIZE;
#else
    return code->co_framesize;
#endif
}

/* Give a frame that has not started another code object (its reference is taken over, the old one is released), and
   point it at the first instruction.  The caller has made the locals and the stack pointer fit. */
static inline void
frame_set_code(Frame *frame, PyCodeObject *code)
{
#if PY_FROM_314
    _PyStackRef old = frame->f_executable;
    frame->f_executable = PyStackRef_FromPyObjectSteal((PyObject *)code);
    frame->instr_ptr = _PyCode_CODE(code);
    PyStackRef_CLOSE(old);
#else
    PyCodeObject *old = frame_code(frame);
#if PY_FROM_313
    frame->f_executable = (PyObject *)code;
    frame->instr_ptr = _PyCode_CODE(code);
#else
    frame->f_code = code;
    frame->prev_instr = _PyCode_CODE(code) - 1;
#endif
    Py_DECREF(old);
#endif
}

/* -- the slots of a frame: locals, then the stack.  From 3.14 a slot is no pointer but a tagged one: the tag says whether the
   slot owns its object, and an empty slot is not 0.  Under a frame hook every argument is owned. ------------------- */

/* What a slot holds, borrowed; NULL: nothing. */
static inline PyObject *
frame_slot(Frame *frame, int slot)
{
#if PY_FROM_314
    return PyStackRef_AsPyObjectBorrow(frame->localsplus[slot]);
#else
    return frame->localsplus[slot];
#endif
}

/* Put an object (its reference is taken over; NULL: nothing) into a slot, whatever bits are in it. */
static inline void
frame_fill_slot(Frame *frame, int slot, PyObject *object)
{
#if PY_FROM_314
    frame->localsplus[slot] = object == NULL ? PyStackRef_NULL : PyStackRef_FromPyObjectSteal(object);
#else
    frame->localsplus[slot] = object;
#endif
}

/* The same, but what the slot held is released. */
static inline void
frame_replace_slot(Frame *frame, int slot, PyObject *object)
{
#if PY_FROM_314
    _PyStackRef old = frame->localsplus[slot];
    frame_fill_slot(frame, slot, object);
    PyStackRef_XCLOSE(old);
#else
    Py_XSETREF(frame->localsplus[slot], object);
#endif
}

/* Move what a slot owns to the same slot of another frame. */
static inline void
frame_move_slot(Frame *from, Frame *to, int slot)
{
    to->localsplus[slot] = from->localsplus[slot];
    frame_fill_slot(from, slot, NULL);
}

/* The first `count` slots as pointers, borrowed: those of the frame itself, or copied to `room`. */
static inline PyObject **
frame_slots(Frame *frame, int count, PyObject **room)
{
#if PY_FROM_314
    for (int i = 0; i < count; i++) {
        room[i] = frame_slot(frame, i);
    }
    return room;
#else
    (void)count;
    (void)room;
    return frame->localsplus;
#endif
}

/* Say how many slots, from the first local on, are in use. */
static inline void
frame_set_stack_top(Frame *frame, int slots)
{
#if PY_FROM_314
    frame->stackpointer = frame->localsplus + slots;
#else
    frame->stacktop = slots;
#endif
}

/* Make it look as if a frame that has not started had got as far as the instruction behind its RESUME. */
static inline void
frame_set_begun(Frame *frame)
{
    PyCodeObject *code = frame_code(frame);
    _Py_CODEUNIT *behind_resume = _PyCode_CODE(code) + code->_co_firsttraceable + 1;
#if PY_FROM_313
    frame->instr_ptr = behind_resume;
#else
    frame->prev_instr = behind_resume;
#endif
}

/* The frame that runs in this thread; NULL: none. */
static inline Frame *
current_frame(void)
{
#if PY_FROM_313
    return PyThreadState_Get()->current_frame;
#else
    return PyThreadState_Get()->cframe->current_frame;
#endif
}

/* A frame that has ended lets go of its locals, but not where a frame object may show them. */
static inline void
drop_locals_of_ended_frame(Frame *frame)
{
#if PY_IS_311
    if (frame->frame_obj == NULL) {
        int count = frame->stacktop;
        for (int i = 0; i < count; i++) {
            Py_CLEAR(frame->localsplus[i]);
        }
    }
#else
    (void)frame;            /* the evaluator has cleared it, see below */
#endif
}

/* Up to 3.11 the caller of an evaluator clears and pops the frame; from 3.12 the evaluator does (Python/ceval.c,
   _PyEval_Vector and clear_thread_frame). */
#define EVALUATOR_CLEARS_FRAME (!PY_IS_311)

/* From 3.12 CPython counts calls that use C stack, and raises RecursionError when too many are nested; a hooked Python
   call counts as two.  True: the hook should leave the rest to others.  3.11 does not count, and 3.14 compares addresses. */
static inline bool
c_recursion_is_low(PyThreadState *tstate)
{
#if PY_IS_311 || PY_FROM_314
    (void)tstate;
    return false;
#elif PY_IS_312
    return tstate->c_recursion_remaining < C_RECURSION_LIMIT / 2;
#else
    return tstate->c_recursion_remaining < Py_C_RECURSION_LIMIT / 2;
#endif
}

/* -- code extra ------------------------------------------------------------------------------------------------- */

static inline Py_ssize_t
request_code_extra_index(freefunc free_extra)
{
#if PY_IS_311
    return _PyEval_RequestCodeExtraIndex(free_extra);
#else
    return PyUnstable_Eval_RequestCodeExtraIndex(free_extra);
#endif
}

static inline int
get_code_extra(PyCodeObject *code, Py_ssize_t index, void **extra)
{
#if PY_IS_311
    return _PyCode_GetExtra((PyObject *)code, index, extra);
#else
    return PyUnstable_Code_GetExtra((PyObject *)code, index, extra);
#endif
}

static inline int
set_code_extra(PyCodeObject *code, Py_ssize_t index, void *extra)
{
#if PY_IS_311
    return _PyCode_SetExtra((PyObject *)code, index, extra);
#else
    return PyUnstable_Code_SetExtra((PyObject *)code, index, extra);
#endif
}

/* -- exceptions ------------------------------------------------------------------------------------------------- */

/* Take the raised exception out of the thread (NULL when there is none), and put one back. */
static inline PyObject *
take_exception(void)
{
#if PY_IS_311
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL) {
        return NULL;
    }
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL) {
        PyException_SetTraceback(value, traceback);
        Py_DECREF(traceback);
    }
    Py_DECREF(type);
    return value;
#else
    return PyErr_GetRaisedException();
#endif
}

static inline void
put_exception_back(PyObject *exception)
{
    if (exception == NULL) {
        return;
    }
#if PY_IS_311
    PyErr_Restore(Py_NewRef(Py_TYPE(exception)), exception, PyException_GetTraceback(exception));
#else
    PyErr_SetRaisedException(exception);
#endif
}

/* -- dictionaries ------------------------------------------------------------------------------------------------ */

/* How many places for keys the dictionary's table has in use, holes included. */
static inline Py_ssize_t
dict_places(PyObject *dictionary)
{
    return ((PyDictObject *)dictionary)->ma_keys->dk_nentries;
}

/* A table of keys and values: of a dictionary, or of an object that has no dictionary yet.  `keys` NULL: no attributes. */
typedef struct {
    PyDictKeysObject *keys;
    PyDictValues *values;         /* NULL: they stand beside the keys */
} AttributeTable;

/* What stands at a place of the table, both borrowed; value NULL: a hole.  PyDict_Next does the same behind a call; the
   layout (Include/internal/pycore_dict.h) is the same from 3.11 to 3.14. */
static inline PyObject *
attribute_at(AttributeTable table, Py_ssize_t place, PyObject **key)
{
    if (DK_IS_UNICODE(table.keys)) {
        PyDictUnicodeEntry *entry = &DK_UNICODE_ENTRIES(table.keys)[place];
        *key = entry->me_key;
        return table.values == NULL ? entry->me_value : table.values->values[place];
    }
    PyDictKeyEntry *entry = &DK_ENTRIES(table.keys)[place];
    *key = entry->me_key;
    return entry->me_value;
}

static inline AttributeTable
table_of(PyObject *dictionary)
{
    PyDictObject *dict = (PyDictObject *)dictionary;
    return dict == NULL ? (AttributeTable){NULL, NULL} : (AttributeTable){dict->ma_keys, dict->ma_values};
}

static inline PyObject *
dict_at(PyObject *dictionary, Py_ssize_t place, PyObject **key)
{
    return attribute_at(table_of(dictionary), place, key);
}

/* The attributes that an object of class `type` stores without a dictionary (Objects/dictobject.c, PyObject_GenericGetDict). */
static inline AttributeTable
inline_attributes(PyTypeObject *type, PyDictValues *values)
{
    return (AttributeTable){((PyHeapTypeObject *)type)->ht_cached_keys, values};
}

/* The own attributes of an object, wherever they are.  `_PyObject_GetDictPtr` would make a dictionary of them. */
static inline AttributeTable
own_attributes(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) {
        PyObject **pointer = _PyObject_GetDictPtr(object);
        return table_of(pointer == NULL ? NULL : *pointer);
    }
#if PY_IS_311
    PyDictValues *values = *_PyObject_ValuesPointer(object);
    return values != NULL ? inline_attributes(type, values) : table_of(*_PyObject_ManagedDictPointer(object));
#elif PY_IS_312
    PyDictOrValues either = *_PyObject_DictOrValuesPointer(object);
    return _PyDictOrValues_IsValues(either) && _PyDictOrValues_GetValues(either) != NULL
               ? inline_attributes(type, _PyDictOrValues_GetValues(either)) : table_of(_PyDictOrValues_GetDict(either));
#else
    if ((type->tp_flags & Py_TPFLAGS_INLINE_VALUES) && _PyObject_InlineValues(object)->valid) {
        return inline_attributes(type, _PyObject_InlineValues(object));
    }
    return table_of((PyObject *)_PyObject_GetManagedDict(object));
#endif
}

/* The dictionary that holds an object's attributes, borrowed, or NULL: nobody has looked at one yet, or there is none. */
static inline PyObject *
materialized_dict(PyObject *object)
{
    if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT)) {
        PyObject **pointer = _PyObject_GetDictPtr(object);
        return pointer == NULL ? NULL : *pointer;
    }
#if PY_IS_311
    return *_PyObject_ManagedDictPointer(object);
#elif PY_IS_312
    PyDictOrValues either = *_PyObject_DictOrValuesPointer(object);
    return _PyDictOrValues_IsValues(either) ? NULL : _PyDictOrValues_GetDict(either);
#else
    return (PyObject *)_PyObject_GetManagedDict(object);
#endif
}

static inline bool
dict_has_only_strings(PyObject *dictionary)
{
    return DK_IS_UNICODE(((PyDictObject *)dictionary)->ma_keys);
}

/* What stands under a string of a dictionary, borrowed, or NULL; runs no user code where all keys are strings. */
static inline PyObject *
dict_get_string(PyObject *dictionary, PyObject *key)
{
    return _PyDict_GetItem_KnownHash(dictionary, key, ((PyASCIIObject *)key)->hash);
}

/* -- versions: one integer that stands for "nothing has changed" --------------------------------------------------- */

/* Of a dictionary: no other state of any dictionary ever had this number.  0: not to be relied on, because the values belong to an
   instance, which on 3.13 stores past the dictionary (and 3.13.0 does not tell watchers, either).  On 3.12 and 3.13 the lower bits
   belong to watchers; whoever sets one of them makes the number differ, and is asked by name.  3.14 has no versions, and tells
   watchers of all writes: the number is ours (dict_versions.c). */
#define DICT_VERSIONS_BY_WATCHER PY_FROM_314

#if DICT_VERSIONS_BY_WATCHER
uint64_t new_dict_version(PyObject *dictionary);
#endif

static inline uint64_t
dict_version(PyObject *dictionary)
{
#if DICT_VERSIONS_BY_WATCHER
    uint64_t version = ((PyDictObject *)dictionary)->_ma_watcher_tag & ~(uint64_t)DICT_WATCHER_AND_MODIFICATION_MASK;
    return version != 0 ? version : new_dict_version(dictionary);
#else
    PyDictObject *dict = (PyDictObject *)dictionary;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return PY_FROM_313 && dict->ma_values != NULL ? 0 : dict->ma_version_tag;
#pragma GCC diagnostic pop
#endif
}

/* Of a type: every lookup through it ends where it ended.  0: it has none now, which 3.11 says by a flag only. */
static inline unsigned int
type_version(PyTypeObject *type)
{
#if PY_IS_311
    return type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG ? type->tp_version_tag : 0;
#else
    return type->tp_version_tag;
#endif
}

/* The dictionary of a type, borrowed: from 3.12 that of a static builtin type stands elsewhere. */
static inline PyObject *
type_dict(PyTypeObject *type)
{
#if PY_IS_311
    return type->tp_dict;
#else
    PyObject *dictionary = PyType_GetDict(type);
    Py_XDECREF(dictionary);
    return dictionary;
#endif
}

/* -- warnings ----------------------------------------------------------------------------------------------------- */

/* Counts changes of the filters of warnings; `warnings` itself can only count on. */
static inline long *
filters_version(void)
{
    return &PyInterpreterState_Get()->warnings.filters_version;
}

/* -- weak references -------------------------------------------------------------------------------------------- */

/* The referent, borrowed, or NULL when it is dead or dying.  Reads the field: 3.13 deprecates the borrowing API. */
static inline PyObject *
weakly_referenced(PyObject *reference)
{
    PyObject *object = ((PyWeakReference *)reference)->wr_object;
    return object == Py_None || Py_REFCNT(object) <= 0 ? NULL : object;
}

#endif
