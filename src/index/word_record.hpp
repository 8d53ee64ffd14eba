// An entry of words as one number, which is what a build sorts: from the top the word, its TID's number, and whether
// its row is dead. It has no more parts than the index's words need.
#pragma once

#include "index/word_key.hpp"

namespace steady
{
template <int N>
struct WordRecord
{
    static constexpr int kParts = N;
    static constexpr int kBelow = 48 + 1;  // bits of the TID and of what comes below
    static constexpr int kAbove = 64 - kBelow;

    uint64 number[N];  // the most significant part first

    static WordRecord make(const Word &w, uint64 tid, bool alive)
    {
        const uint64 all[] = {w.high >> kAbove, w.high << kBelow | w.mid >> kAbove, w.mid << kBelow | w.low >> kAbove,
                              w.low << kBelow | tid << 1 | !alive};
        WordRecord record;
        for (int i = 0; i < N; i++)
            record.number[i] = all[4 - N + i];
        return record;
    }
    Word word() const
    {
        uint64 all[4] = {};
        for (int i = 0; i < N; i++)
            all[4 - N + i] = number[i];
        return {all[0] << kAbove | all[1] >> kBelow, all[1] << kAbove | all[2] >> kBelow,
                all[2] << kAbove | all[3] >> kBelow};
    }
    uint64 tid() const
    {
        return number[N - 1] >> 1 & ((UINT64CONST(1) << 48) - 1);
    }
    bool alive() const
    {
        return (number[N - 1] & 1) == 0;
    }

    uint64 part(int i) const
    {
        return number[i];
    }
    bool operator<(const WordRecord &other) const
    {
        for (int i = 0; i < N - 2; i++)
            if (number[i] != other.number[i])
                return number[i] < other.number[i];
        return low_parts() < other.low_parts();
    }

  private:
    uint128_ low_parts() const
    {
        return static_cast<uint128_>(number[N - 2]) << 64 | number[N - 1];
    }
};

constexpr int kLeastParts = 2, kMostParts = 4;
inline int record_parts(const WordShape &shape)
{
    return std::max((shape.bits + WordRecord<2>::kBelow + 63) / 64, kLeastParts);
}
}  // namespace steady
