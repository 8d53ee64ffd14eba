// Sorted runs in temporary files: bytes, whatever they stand for.
#pragma once

#include "pg/pg.hpp"

namespace steady
{
// What lies in [start, end) of a file.
struct Run
{
    int32 file;
    int64 start, end;
};

class RunFiles
{
  public:
    // Files belong to the current resource owner. With `shared`, those of a parallel sort's `participant`.
    void begin(MemoryContext context, FileSet *shared, int participant);
    // Lists what participants 0 .. count-1 exported.
    void import(FileSet *, int count);

    // A run behind the last one, in another file if that is being read.
    void begin_run(bool new_file);
    void write(const void *data, Size size);
    void end_run();

    // All of a participant's runs lie in its file afterwards, for an importer to read.
    void export_runs();
    void close();

    int count() const
    {
        return runs_.n;
    }
    const Run &operator[](int i) const
    {
        return runs_.element[i];
    }
    // The first `n` runs were merged.
    void forget(int n);

  private:
    friend class RunReader;
    template <class T>
    struct List
    {
        int n, room;
        T *element;
    };
    template <class T>
    void append(List<T> *list, const T &element);

    MemoryContext context_;
    FileSet *shared_;
    int participant_;
    List<BufFile *> files_;
    List<Run> runs_;
    int64 size_;  // of the last file, which grows
};

// Reads a run through a buffer.
class RunReader
{
  public:
    // What is read at once.
    static constexpr Size kLeast = 4 * BLCKSZ, kMost = 32 * BLCKSZ;

    void open(const RunFiles &, int run, Size size);
    // What is in the buffer; MAXALIGNed if only such sizes were taken.
    const char *rest() const
    {
        return buffer_ + next_;
    }
    Size left() const
    {
        return used_ - next_;
    }
    void take(Size size)
    {
        next_ += size;
    }
    // Moves the rest to the front of the buffer and fills it up. False: there is nothing left.
    bool refill();
    void close()
    {
        pfree(buffer_);
    }

  private:
    BufFile *file_;
    int64 at_, end_;  // what was not yet read
    char *buffer_;
    Size size_, used_, next_;
};
}  // namespace steady
