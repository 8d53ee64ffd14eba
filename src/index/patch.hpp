// What a change did to one page, for the log: a few byte ranges, or the page as a whole.
#pragma once

#include "index/page.hpp"

namespace steady
{
class Patch
{
  public:
    // More ranges, or more bytes, than this are dearer than an image of the page without its hole.
    static constexpr int kMaxRanges = 16;

    void reset()
    {
        n_ = 0;
        whole_ = false;
    }
    // Bytes [offset, offset + length) changed. Ranges that touch or nearly touch become one.
    void note(int offset, int length);
    void note_header()
    {
        note(offsetof(PageHeaderData, pd_lower), 2 * sizeof(LocationIndex));
    }
    void note_tail()
    {
        note(kTailAt, sizeof(PageTail));
    }
    // A field of the page: note_field(page, tail(page)->right). Not const: a const reference to a member of a packed
    // structure (ItemPointerData) would be one to a copy, which is nowhere on the page.
    template <class Field>
    void note_field(Page page, Field &field)
    {
        note(reinterpret_cast<char *>(&field) - page, sizeof field);
    }
    // The page was made anew: log an image.
    void note_whole()
    {
        whole_ = true;
    }
    bool whole() const
    {
        return whole_;
    }

    struct Range
    {
        uint16 offset, length;
    };
    const Range *begin() const
    {
        return range_;
    }
    const Range *end() const
    {
        return range_ + n_;
    }
    // Fragments as generic redo reads them (generic_xlog.c: offset, length, bytes). Returns the bytes written.
    int write(Page page, char *out) const;

  private:
    Range range_[kMaxRanges];
    int n_ = 0;
    bool whole_ = false;
};
}  // namespace steady
