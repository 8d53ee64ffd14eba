#include "index/flags.hpp"

#include "index/leaf_map.hpp"
#include "pg/errors.hpp"

namespace steady
{
bool all_stamped(Page page)
{
    const Zone *z = zone_of(page);
    return z != nullptr ? static_cast<int>(z->dead) == real_entries(page, z->entries) : Codec::live(page) == 0;
}

// The zone is changed in a way that must not get lost before the next crash: a hint would be forgotten where the
// relation skips WAL. The hint comes first, since with checksums it logs an image against torn pages.
static void mark_zone_dirty(Buffer buf, Guard guard)
{
    MarkBufferDirtyHint(buf, true);
    if (guarded(guard))
        MarkBufferDirty(buf);
}

static bool flags_are_off()
{
    return guarded("recovery_flags") && RecoveryInProgress();
}

// The parent of `child`, exclusively locked without waiting: what `path` has, or a page near by. A scan follows the
// links between leaves and crosses from parent to parent in its direction.
static Buffer try_parent(const Tree &tree, BlockNumber child, int level, Path *path, int *slot)
{
    if (level >= path->levels)
        return InvalidBuffer;
    BlockNumber left = InvalidBlockNumber, right = path->block[level];
    for (int i = 0; i < 4; i++)
    {
        BlockNumber block = i == 2 ? left : right;
        if (block == InvalidBlockNumber)
            continue;
        Buffer buf = ReadBuffer(tree.rel, block);
        if (!ConditionalLockBuffer(buf))
        {
            ReleaseBuffer(buf);
            break;
        }
        Page page = page_of(buf);
        if (page_fault(page, block) != nullptr || block == kMetaBlock || tail(page)->level != level)
        {
            UnlockReleaseBuffer(buf);
            break;
        }
        if (!has_flag(page, kDeleted) && (*slot = find_downlink(page, child)) >= 0)
        {
            path->block[level] = block;
            return buf;
        }
        if (i == 0)
            left = tail(page)->left;
        if (i != 2)
            right = tail(page)->right;
        UnlockReleaseBuffer(buf);
    }
    return InvalidBuffer;
}

void flag_child(const Tree &tree, Buffer child, Path *path, const Witness &witness)
{
    Page page = page_of(child);
    if (flags_are_off() || is_rightmost(page) || (guarded("incomplete_split") && has_flag(page, kIncompleteSplit)) ||
        has_flag(page, kDeleted) || !all_stamped(page))
        return;
    Zone *zone = zone_for_stamping(page, Codec::entries(page));
    if (zone == nullptr)
        return;
    StampRange hull;
    bool to_all = !zone_hull(zone, &hull);
    // Whoever sees a running transaction in the middle couldn't use the flag.
    if (!to_all && running_of(witness).any_in(hull))
        return;
    if (guarded("sticky_bit"))
        zone->flags |= kMaybeFlagged;
    mark_zone_dirty(child, "bit_kept");
    stop_point("flag");

    int slot;
    Buffer parent = try_parent(tree, BufferGetBlockNumber(child), tail(page)->level + 1, path, &slot);
    if (!BufferIsValid(parent))
        return;
    Page above = page_of(parent);
    Zone *flags = zone_for_stamping(above, Codec::entries(above));
    StampCode code = kAlive;
    if (flags != nullptr)
        code = to_all ? kDeadToAll : zone_code_for(flags, hull, running_of(witness));
    if (code != kAlive)
    {
        set_zone_code(flags, Codec::entry_number(above, slot), code);
        MarkBufferDirtyHint(parent, true);
        flag_child(tree, parent, path, witness);
    }
    UnlockReleaseBuffer(parent);
}

void clear_flags(const Tree &tree, Buffer child, const SearchKey &key, Path *path)
{
    Page page = page_of(child);
    Zone *zone = zone_of(page);
    if (zone == nullptr || !(zone->flags & kMaybeFlagged) || !guarded("flag_clearing"))
        return;
    int slot;
    Buffer parent = find_parent(tree, tail(page)->level + 1, BufferGetBlockNumber(child), key, path, &slot);
    if (!BufferIsValid(parent))
        report_corruption(tree.rel, BufferGetBlockNumber(child), "page has no downlink in its parent level");
    Page above = page_of(parent);
    Zone *flags = zone_of(above);
    if (flags != nullptr && (guarded("whole_way") || zone_code(flags, Codec::entry_number(above, slot)) != kAlive))
    {
        set_zone_code(flags, Codec::entry_number(above, slot), kAlive);
        mark_zone_dirty(parent, "clearing_kept");
        stop_point("clear");
        // Not stopping at a flag that is clear already: a clearing before this one may have failed half-way.
        clear_flags(tree, parent, key, path);
    }
    UnlockReleaseBuffer(parent);
    zone->flags &= ~kMaybeFlagged;
    mark_zone_dirty(child, "clearing_kept");
}

bool may_skip(const Witness &w)
{
    return w.kind != Witness::Kind::nothing && w.kind != Witness::Kind::dead_to_all && !flags_are_off() &&
           !(guarded("serializable") && IsolationIsSerializable());
}

// ---- descents

// A place on the way down.
struct Descent
{
    Descent(const Tree &tree, const SearchKey &key, bool forward, const Witness &witness, const SearchKey *end,
            Path *path, Leftovers *leftovers)
        : tree(tree), key(&key), forward(forward), witness(witness), end(end), path(path), leftovers(leftovers)
    {
    }
    const Tree &tree;
    const SearchKey *key;
    bool forward;
    const Witness &witness;
    const SearchKey *end;
    Path *path;
    Leftovers *leftovers;
    BlockNumber held = InvalidBlockNumber;
    bool from_edge = false;  // forward, in the page at hand: all of the next one is in question
    // The place moves to where the children that were passed over begin (backward) or end (forward, across pages).
    SearchKey moved;
    alignas(MAXIMUM_ALIGNOF) char pivot[kMaxPivot];

    void move_to(Entry e)
    {
        memcpy(pivot, e, IndexTupleSize(e));
        key_from_pivot(*tree.schema, reinterpret_cast<Entry>(pivot), &moved);
        key = &moved;
    }
    // Is what begins at this pivot (backward: what ends there) beyond what is wanted?
    bool past_end(Entry e) const
    {
        if (end == nullptr || end->n == 0)
            return false;
        int order = compare_pivot(*tree.schema, *end, e);
        return forward ? order <= 0 : order >= 0;
    }
};

// Right, to the page of this level that holds the place. As move_right(), but backward a page that ends just at the
// place will do: what is in front of the place is on it.
static Buffer settle(const Descent &d, Buffer buf)
{
    for (BlockNumber steps = 0;; steps++)
    {
        Page page = page_of(buf);
        bool here = !has_flag(page, kDeleted);
        Entry high = here && !d.from_edge ? Codec::high(page) : nullptr;
        if (high != nullptr)
        {
            int order = compare_pivot(*d.tree.schema, *d.key, high);
            here = d.forward ? order < 0 : order <= 0;
        }
        if (here)
            return buf;
        BlockNumber block = BufferGetBlockNumber(buf);
        if (is_rightmost(page))
            report_corruption(d.tree.rel, block, "deleted page has no right sibling");
        check_steps(d.tree.rel, block, steps);
        buf = step(d.tree.rel, buf, tail(page)->right, Lock::share);
    }
}

static int place_on(const Descent &d, Page page)
{
    if (d.from_edge)
        return InnerCodec::next(page, 0);
    int slot = InnerCodec::find_child(*d.tree.schema, *d.key, page);
    if (d.forward)
        return slot;
    int before = InnerCodec::previous(page, slot - 1);
    return before >= 0 && compare_pivot(*d.tree.schema, *d.key, InnerCodec::at(page, slot)) == 0 ? before : slot;
}

enum class Outcome : uint8
{
    found,
    none,     // nothing that is wanted lies on this way
    further,  // all of a page was passed over: again from the root, where flags of whole subtrees are
    astray,   // a link was out of date: the same again
};

// The child of an inner page (share-locked) to go on with.
static Outcome choose_child(Descent &d, Page page, int *slot)
{
    *slot = place_on(d, page);
    d.from_edge = false;
    const Zone *zone = zone_of(page);
    if (zone == nullptr || zone->dead == 0)
        return Outcome::found;
    uint32 skip = codes_to_skip(d.witness, zone);
    uint32 removable = d.leftovers != nullptr ? removable_codes(d.leftovers->heap, zone) : 0;
    uint32 quick = skip & ~removable;
    int n = InnerCodec::slots(page);
    Activity &activity = d.tree.activity;
    uint64 &skipped = tail(page)->level > 1 ? activity.skipped_subtrees : activity.skipped_pages;
    for (int passed = 1; skip >> zone_code(zone, *slot) & 1; passed++)
    {
        // Forward to the last of those that follow one another and whose leaves needn't be remembered.
        int first = *slot;
        if (d.forward && (quick >> zone_code(zone, first) & 1))
            *slot = InnerCodec::previous(page, first_with(zone, codes_in_use(zone) & ~quick, first, n) - 1);
        Entry e = InnerCodec::at(page, *slot);
        int next = d.forward ? InnerCodec::next(page, *slot + 1) : InnerCodec::previous(page, *slot - 1);
        // The bound between this child and the next one in direction.
        Entry bound;
        if (d.forward)
            bound = next < n ? InnerCodec::at(page, next) : Codec::high(page);
        else
            bound = pivot_columns(e) > 0 ? e : Codec::low(page);
        if (bound == nullptr)
        {
            // Nothing follows, or the low fence was too long to keep: then this child is visited as any other.
            if (d.forward ? is_rightmost(page) : is_leftmost(page))
                return Outcome::none;
            return Outcome::found;
        }
        if ((removable >> zone_code(zone, *slot) & 1) && d.leftovers->count < Leftovers::kMost)
        {
            if (tail(page)->level > 1)
                return Outcome::found;  // its leaves are looked for
            d.leftovers->block[d.leftovers->count++] = child_of(e);
        }
        // Not past the end of what is wanted; looked at with growing distance, since keys are dear to compare.
        bool last = next < 0 || next >= n;
        if ((last || *slot != first || (passed & (passed - 1)) == 0) && d.past_end(bound))
        {
            skipped++;
            return Outcome::none;
        }
        skipped += *slot - first + 1;
        if (last)
        {
            d.move_to(bound);
            return Outcome::further;
        }
        if (!d.forward)
            d.move_to(bound);
        d.from_edge = d.forward;
        *slot = next;
    }
    return Outcome::found;
}

// A parent of leaves at which the way to the place can begin, by the last descent's path; share-locked. Whatever the
// block holds by now, its level and its fence tell whether the place is on it or to its right. (Backward, what is in
// front of its first place is on its left.)
static Buffer remembered_parent(const Descent &d)
{
    if (d.path->levels < 2)
        return InvalidBuffer;
    Buffer buf = read_page(d.tree.rel, d.path->block[1], Lock::share);
    Page page = page_of(buf);
    if (tail(page)->level == 1 && !has_flag(page, kDeleted) && !has_flag(page, kLowUnknown))
    {
        Entry low = Codec::low(page);
        int order = low != nullptr ? compare_pivot(*d.tree.schema, *d.key, low) : 1;
        if (d.forward ? order >= 0 : order > 0)
            return buf;
    }
    UnlockReleaseBuffer(buf);
    return InvalidBuffer;
}

static Outcome try_descend(Descent &d, From from, Buffer *leaf)
{
    *leaf = InvalidBuffer;
    d.from_edge = false;
    Buffer buf = from == From::parent ? remembered_parent(d) : InvalidBuffer;
    int level = 1;
    if (!BufferIsValid(buf))
    {
        MetaData m;
        buf = get_root(d.tree.rel, 0, Lock::share, &m);
        if (!BufferIsValid(buf))
            return Outcome::found;
        level = m.level;
        d.path->levels = level + 1;
    }
    for (;; level--)
    {
        buf = settle(d, buf);
        Page page = page_of(buf);
        if (tail(page)->level != level || (!d.from_edge && Codec::below(*d.tree.schema, *d.key, page)))
        {
            UnlockReleaseBuffer(buf);
            return Outcome::astray;
        }
        d.path->block[level] = BufferGetBlockNumber(buf);
        if (level == 0)
        {
            *leaf = buf;
            return Outcome::found;
        }
        if (level == 1)
            map_parent(d.tree, page, *d.path);
        int slot;
        Outcome outcome = choose_child(d, page, &slot);
        if (outcome != Outcome::found)
        {
            UnlockReleaseBuffer(buf);
            return outcome;
        }
        BlockNumber child = child_of(InnerCodec::at(page, slot));
        if (child == d.held)
            report_corruption(page, "downlink leads back to a page left of its range");
        buf = step(d.tree.rel, buf, child, Lock::share);
    }
}

Buffer descend_past_dead(const Tree &tree, const SearchKey &key, ScanDirection dir, const Witness &witness,
                         const SearchKey *end, From from, Path *path, int *slot, bool *none, Leftovers *leftovers,
                         BlockNumber held)
{
    constexpr int kMaxAstray = 10;
    bool forward = ScanDirectionIsForward(dir);
    Descent d(tree, key, forward, witness, end, path, leftovers);
    d.held = held;
    *none = false;
    for (int astray = 0; astray < kMaxAstray;)
    {
        CHECK_FOR_INTERRUPTS();
        Buffer buf;
        Outcome outcome = try_descend(d, from, &buf);
        from = From::root;
        switch (outcome)
        {
            case Outcome::found:
                if (BufferIsValid(buf))
                {
                    *slot = d.from_edge ? 0 : Codec::find(*tree.schema, *d.key, page_of(buf));
                    *slot -= !forward;
                }
                return buf;
            case Outcome::none:
                *none = true;
                return InvalidBuffer;
            case Outcome::further:
                break;
            case Outcome::astray:
                astray++;
                break;
        }
    }
    // Somebody keeps changing the tree just here: go without passing over anything.
    Buffer buf = descend(tree, *d.key, 0, Lock::share, path);
    if (BufferIsValid(buf))
        *slot = Codec::find(*tree.schema, *d.key, page_of(buf)) - !forward;
    return buf;
}
}  // namespace steady
