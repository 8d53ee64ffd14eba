#include "index/sort_runs.hpp"

namespace steady
{
static void file_name(char *name, int participant)
{
    snprintf(name, MAXPGPATH, "runs.%d", participant);
}

static void read_bytes(BufFile *file, int64 at, void *data, Size size)
{
    // The seek's file number is that of a segment: offsets beyond the first one go on to the next.
    if (BufFileSeek(file, 0, at, SEEK_SET) != 0)
        ereport(ERROR, (errcode_for_file_access(), errmsg("could not seek in temporary file: %m")));
    Size got = BufFileRead(file, data, size);
    if (got != size)
        ereport(ERROR, (errcode_for_file_access(),
                        errmsg("could not read from temporary file: read only %zu of %zu bytes", got, size)));
}

template <class T>
void RunFiles::append(List<T> *list, const T &element)
{
    if (list->n == list->room)
    {
        int room = std::max(2 * list->room, 8);
        auto *grown = static_cast<T *>(MemoryContextAllocHuge(context_, room * sizeof(T)));
        if (list->n > 0)
        {
            memcpy(grown, list->element, list->n * sizeof(T));
            pfree(list->element);
        }
        list->element = grown;
        list->room = room;
    }
    list->element[list->n++] = element;
}

void RunFiles::begin(MemoryContext context, FileSet *shared, int participant)
{
    context_ = context;
    shared_ = shared;
    participant_ = participant;
    files_ = {};
    runs_ = {};
    size_ = 0;
}

void RunFiles::begin_run(bool new_file)
{
    MemoryContext old = MemoryContextSwitchTo(context_);
    if (new_file || files_.n == 0)
    {
        BufFile *file;
        if (shared_ != nullptr)
        {
            char name[MAXPGPATH];
            file_name(name, participant_);
            file = BufFileCreateFileSet(shared_, name);
        }
        else
            file = BufFileCreateTemp(false);
        append(&files_, file);
        size_ = 0;
    }
    append(&runs_, Run{files_.n - 1, size_, size_});
    MemoryContextSwitchTo(old);
}

void RunFiles::write(const void *data, Size size)
{
    constexpr Size kAtOnce = 1024 * 1024;
    auto *bytes = static_cast<char *>(const_cast<void *>(data));
    size_ += size;
    for (; size > kAtOnce; bytes += kAtOnce, size -= kAtOnce)
    {
        CHECK_FOR_INTERRUPTS();
        BufFileWrite(files_.element[files_.n - 1], bytes, kAtOnce);
    }
    BufFileWrite(files_.element[files_.n - 1], bytes, size);
}

void RunFiles::end_run()
{
    runs_.element[runs_.n - 1].end = size_;
}

void RunFiles::forget(int n)
{
    runs_.n -= n;
    memmove(runs_.element, runs_.element + n, runs_.n * sizeof(Run));
}

// A participant's file ends with the list of its runs and their number.
void RunFiles::export_runs()
{
    int64 count = runs_.n;
    write(runs_.element, count * sizeof(Run));
    write(&count, sizeof count);
    BufFileExportFileSet(files_.element[0]);
}

void RunFiles::import(FileSet *files, int count)
{
    MemoryContext old = MemoryContextSwitchTo(context_);
    for (int i = 0; i < count; i++)
    {
        char name[MAXPGPATH];
        file_name(name, i);
        BufFile *file = BufFileOpenFileSet(files, name, O_RDONLY, false);
        append(&files_, file);
        int64 size = BufFileSize(file), runs;
        read_bytes(file, size - sizeof runs, &runs, sizeof runs);
        int64 at = size - sizeof runs - runs * sizeof(Run);
        for (; runs > 0; runs--, at += sizeof(Run))
        {
            Run run;
            read_bytes(file, at, &run, sizeof run);
            run.file = i;
            append(&runs_, run);
        }
    }
    MemoryContextSwitchTo(old);
}

void RunFiles::close()
{
    for (int i = 0; i < files_.n; i++)
        BufFileClose(files_.element[i]);
}

void RunReader::open(const RunFiles &files, int run, Size size)
{
    file_ = files.files_.element[files[run].file];
    at_ = files[run].start;
    end_ = files[run].end;
    size_ = size;
    used_ = next_ = 0;
    buffer_ = static_cast<char *>(MemoryContextAlloc(files.context_, size));
}

bool RunReader::refill()
{
    Size left = this->left();
    memmove(buffer_, rest(), left);
    Size more = std::min<int64>(size_ - left, end_ - at_);
    if (more > 0)
        read_bytes(file_, at_, buffer_ + left, more);
    at_ += more;
    used_ = left + more;
    next_ = 0;
    return used_ > 0;
}
}  // namespace steady
