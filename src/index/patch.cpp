#include "index/patch.hpp"

namespace steady
{
// Two ranges closer than the header of a fragment cost less as one.
constexpr int kFragmentHeader = 2 * sizeof(uint16);

void Patch::note(int offset, int length)
{
    Assert(offset >= 0 && offset + length <= BLCKSZ);
    if (whole_ || length <= 0)
        return;
    for (int i = 0; i < n_;)
    {
        Range &r = range_[i];
        if (offset <= r.offset + r.length + kFragmentHeader && r.offset <= offset + length + kFragmentHeader)
        {
            int end = std::max(offset + length, r.offset + r.length);
            offset = std::min<int>(offset, r.offset);
            length = end - offset;
            r = range_[--n_];
            i = 0;  // the grown range may touch one that was passed
        }
        else
            i++;
    }
    if (n_ == kMaxRanges || length > BLCKSZ / 2)
        whole_ = true;
    else
        range_[n_++] = {static_cast<uint16>(offset), static_cast<uint16>(length)};
}

int Patch::write(Page page, char *out) const
{
    char *p = out;
    for (const Range &r : *this)
    {
        memcpy(p, &r.offset, sizeof r.offset);
        memcpy(p + sizeof r.offset, &r.length, sizeof r.length);
        memcpy(p + kFragmentHeader, page + r.offset, r.length);
        p += kFragmentHeader + r.length;
    }
    return p - out;
}
}  // namespace steady
