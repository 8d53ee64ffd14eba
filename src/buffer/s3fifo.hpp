// S3-FIFO (Yang, Zhang, Qiu, Yue, Vinayak, "FIFO queues are all you need for cache eviction", SOSP 2023), made for
// buffers that are pinned, refused and dropped, and whose uses come in bursts.
//
// Every buffer is in exactly one list, also while it is somebody's victim:
//
//     free ---> fresh ---> small ---> main          evicted from small: its tag becomes a ghost
//                 |                    ^
//                 +-- known as ghost --+
//
// fresh and small together are the paper's small queue, a twentieth of the buffers. The uses of a page while it is
// fresh belong together (the tuples of one page, the pages of one descent) and are forgotten when it leaves; what is
// used after that is promoted at the end of small. main gives each buffer as many rounds as it has uses, one at least.
//
// Who calls has to see to it that only one does at a time. Each call takes constant time.
#pragma once

#include <cstddef>

#include "buffer/policy.hpp"

namespace steady::buffer
{
class S3Fifo
{
  public:
    enum List : std::uint8_t
    {
        kFree,
        kFresh,
        kSmall,
        kMain,
        kLists
    };

    // In buffers. fresh is a part of small.
    struct Shape
    {
        std::uint32_t small, fresh;
    };
    // The paper has a tenth for small; half of it did better on every trace that was tried, with scans and without
    // (doc/buffer-replacement.md).
    static Shape usual_shape(std::uint32_t buffers)
    {
        Shape shape{buffers / 20, buffers / 80};
        if (shape.small < 2)
            shape.small = 2;
        if (shape.fresh < 1)
            shape.fresh = 1;
        return shape;
    }
    // As many ghosts as main has buffers. Half of them do a little better for look-ups, and badly for scans that are
    // repeated and almost fit.
    static std::uint32_t usual_ghosts(std::uint32_t buffers)
    {
        return buffers - usual_shape(buffers).small;
    }

    static std::size_t memory(std::uint32_t buffers)
    {
        return sizeof(Node) * buffers;
    }

    void start(void *memory, std::uint32_t buffers, Shape shape)
    {
        node_ = static_cast<Node *>(memory);
        buffers_ = buffers;
        shape_ = shape;
        steps_ = 0;
        share_[0] = share_[1] = 0;
        credit_ = 0;
        for (auto &list : list_)
            list = Ends{kNone, kNone, kNone, 0};
        for (Id id = 0; id < buffers; id++)
            push(id, kFree);
    }

    // Looks at a few buffers, and moves each to where it belongs if it stays. A buffer that seems to be free of pins
    // and uses, or kNone: ask again, unless the search is exhausted. The victim counts as just put into its list:
    // should it be refused, there is nothing to undo.
    template <Frames F>
    Id victim(F &frames, Search &search)
    {
        for (int looks = 0; looks < kLooks && !exhausted(search); looks++)
        {
            List from = choose(search);
            if (from == kLists)
                continue;
            Id id = list_[from].oldest;
            Use use = frames.look(id);
            search.steps++;
            count_step(from);
            bool last_resort = search.fruitless >= buffers_;
            if (from == kFree)
            {
                // In any case it is free no longer: somebody may have got it between losing its page and being freed.
                move(id, kFresh);
                if (!use.pinned && use.count == 0)
                    return id;
                continue;
            }
            if (from == kSmall && use.count > 0 && !last_resort)
            {
                frames.forget(id);
                move(id, kMain);
                search.promotions++;
                search.fruitless = 0;
                continue;
            }
            move(id, from);
            if (use.pinned)
            {
                search.fruitless++;
                continue;
            }
            if (use.count == 0)
                return id;
            if (last_resort)
            {
                frames.forget(id);
                return id;
            }
            frames.lower(id);
            search.fruitless = 0;
        }
        return kNone;
    }

    // Has the search come by every buffer and found all of them pinned?
    bool exhausted(const Search &search) const
    {
        return search.fruitless / buffers_ > kLastResort;
    }

    // May be asked at any time, for counting.
    bool is_fresh(Id id) const
    {
        return __atomic_load_n(&node_[id].list, __ATOMIC_RELAXED) == kFresh;
    }

    // A victim got a page. remembered: the ghosts know it. once: a scan reads it that won't come back for it soon.
    template <Frames F>
    void installed(F &frames, Id id, bool remembered, bool once)
    {
        node_[id].flags = once ? kOnce : remembered ? kKnown : 0;
        move(id, kFresh);
        while (list_[kFresh].size > shape_.fresh)
        {
            Id aged = list_[kFresh].oldest;
            frames.forget(aged);
            move(aged, node_[aged].flags & kKnown ? kMain : kSmall);
        }
    }

    // Should the page that this victim loses become a ghost? main has had its chance; a scan comes by again in any
    // case. Whoever holds the victim may ask at any time.
    bool leaves_ghost(Id id) const
    {
        return __atomic_load_n(&node_[id].list, __ATOMIC_RELAXED) != kMain && !(node_[id].flags & kOnce);
    }

    void freed(Id id)
    {
        node_[id].flags = 0;
        move(id, kFree);
    }

    bool has_free() const
    {
        return list_[kFree].size > 0;
    }

    std::uint32_t size(List list) const
    {
        return list_[list].size;
    }

    // Buffers looked at so far.
    std::uint64_t steps() const
    {
        return steps_;
    }

    // The buffer that whoever cleans ahead of the search should look at next; kNone if all were. Both lists are walked
    // from their old ends, and in the proportion in which the search has gone by them lately.
    Id next_to_clean()
    {
        List from = kSmall;
        credit_ += share_[1];
        if (credit_ >= share_[0] + share_[1])
        {
            credit_ -= share_[0] + share_[1];
            from = kMain;
        }
        if (list_[from].to_clean == kNone)
            from = from == kSmall ? kMain : kSmall;
        Id id = list_[from].to_clean;
        if (id != kNone)
            list_[from].to_clean = node_[id].newer;
        return id;
    }

    // Does every list hold together, and are all buffers in one?
    bool sound() const
    {
        std::uint32_t seen = 0;
        for (int list = 0; list < kLists; list++)
        {
            std::uint32_t size = 0;
            bool to_clean = list_[list].to_clean == kNone;
            Id before = kNone;
            for (Id id = list_[list].oldest; id != kNone; id = node_[id].newer)
            {
                if (node_[id].older != before || node_[id].list != list || ++size > list_[list].size)
                    return false;
                to_clean |= id == list_[list].to_clean;
                before = id;
            }
            if (list_[list].newest != before || size != list_[list].size || !to_clean)
                return false;
            seen += size;
        }
        return seen == buffers_;
    }

  private:
    static constexpr int kLooks = 16;
    // With that many rounds of pinned buffers only, the search goes to main, then small, then fresh whatever their
    // sizes.
    static constexpr std::uint32_t kLastResort = 3;

    enum Flags : std::uint8_t
    {
        kOnce = 1,
        kKnown = 2
    };

    struct Node
    {
        Id newer, older;
        List list;
        std::uint8_t flags;
    };

    struct Ends
    {
        Id newest, oldest;
        Id to_clean;  // where next_to_clean() goes on; kNone: it has been everywhere
        std::uint32_t size;
    };

    List choose(Search &search) const
    {
        if (std::uint32_t round = search.fruitless / buffers_; round > 0)
        {
            List list = static_cast<List>(kLists - round);
            if (list_[list].size > 0)
                return list;
            search.fruitless = (round + 1) * buffers_;
            return kLists;
        }
        if (list_[kFree].size > 0)
            return kFree;
        bool from_main = list_[kFresh].size + list_[kSmall].size <= shape_.small;
        if (from_main && list_[kMain].size > 0)
            return kMain;
        return list_[kSmall].size > 0 ? kSmall : list_[kMain].size > 0 ? kMain : kFresh;
    }

    void count_step(List from)
    {
        steps_++;
        if (from != kSmall && from != kMain)
            return;
        share_[from == kMain]++;
        if (share_[0] + share_[1] >= buffers_)
        {
            share_[0] /= 2;
            share_[1] /= 2;
        }
    }

    void push(Id id, List list)
    {
        Ends &ends = list_[list];
        node_[id].newer = kNone;
        node_[id].older = ends.newest;
        node_[id].list = list;
        if (ends.newest == kNone)
            ends.oldest = id;
        else
            node_[ends.newest].newer = id;
        ends.newest = id;
        if (ends.to_clean == kNone)
            ends.to_clean = id;
        ends.size++;
    }

    void unlink(Id id)
    {
        Node &node = node_[id];
        Ends &ends = list_[node.list];
        if (ends.to_clean == id)
            ends.to_clean = node.newer;
        (node.older == kNone ? ends.oldest : node_[node.older].newer) = node.newer;
        (node.newer == kNone ? ends.newest : node_[node.newer].older) = node.older;
        ends.size--;
    }

    void move(Id id, List list)
    {
        unlink(id);
        push(id, list);
    }

    Node *node_;
    std::uint32_t buffers_;
    Shape shape_;
    Ends list_[kLists];
    std::uint64_t steps_;
    std::uint64_t share_[2], credit_;  // steps lately, in small and main; what next_to_clean() owes main
};
}  // namespace steady::buffer
