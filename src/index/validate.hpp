// What may be in an operator class and its family. Strategy and support numbers are btree's, so an operator class that
// is right for btree is right here.
#pragma once

#include "pg/pg.hpp"

namespace steady
{
// amvalidate: tells each fault as INFO, and whether there was none.
bool validate_opclass(Oid opclass);

// amadjustmembers: what each new member depends on. `opclass` is the class that is being created, or InvalidOid.
void adjust_members(Oid family, Oid opclass, List *operators, List *functions);

// ambuild: raises an error where a column got a stand-in for the operator class that btree would have taken. An
// extension's type whose classes were not imported falls back to those of a type that it can be read as: citext to
// text's, and a unique index would quietly tell upper from lower case. Also, as for btree's, where the class can't do
// with the column's collation.
void check_opclasses(Relation index);
}  // namespace steady
