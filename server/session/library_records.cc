// SPDX-License-Identifier: Apache-2.0
#include "server/session/library_records.h"

#include <cstring>
#include <optional>

#include "server/device/current_context.h"
#include "server/library/lost_work.h"
#include "server/library/toolkit_files.h"
#include "server/memory/library_memory.h"

namespace farcall::server {

namespace {

bool ReadHeader(Reader& in, LibraryHeader* header) {
  header->stream = in.Get<uint64_t>();
  header->library = in.Get<uint8_t>();
  header->major = in.Get<uint8_t>();
  header->function = in.Get<uint16_t>();
  header->pointer_mode = in.Get<uint8_t>();
  for (uint8_t& reserved : header->reserved) reserved = in.Get<uint8_t>();
  return in.ok() && header->library != 0 &&
         header->library <= static_cast<uint8_t>(LibraryId::kLast);
}

// What its like is known by, to the gate: the function and the sizes ahead of the first pointers.
uint64_t WorkOf(const LibraryHeader& header, std::span<const std::byte> body) {
  constexpr size_t kTelling = 64;
  uint64_t key = uint64_t{header.library} << 16 | header.function;
  for (size_t at = sizeof(header) + 8; at + 8 <= std::min(body.size(), kTelling); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, body.data() + at, sizeof(word));
    key = (key ^ word) * 0x9e3779b97f4a7c15u;
    key ^= key >> 29;
  }
  return key | 1;
}

constexpr uint64_t kLegacyStream = 1;

bool TellsHandle(const LibraryRow& row) {
  const std::string_view name = row.name;
  return name.find("SetPointerMode") != name.npos || name.find("SetStream") != name.npos;
}

// By id: a bit for each function that a call can be made of.
std::string FunctionsOf(const LibraryTable& table, const LoadedLibrary& loaded) {
  std::string bits((table.count + 7) / 8, 0);
  for (uint16_t id = 0; id < table.count; ++id) {
    const LibraryRow& row = table.rows[id];
    if (id == kLibraryOpen ||
        (row.serve != nullptr && (row.apart || loaded.functions[id] != nullptr)))
      bits[id / 8] = static_cast<char>(bits[id / 8] | 1 << id % 8);
  }
  return bits;
}

// What a toolkit here has beside its libraries, in pieces; read on a helper.
std::function<void()> AnswerFile(ServeCall& call) {
  const auto file = call.in.Get<uint32_t>();
  call.in.Get<uint32_t>();
  const auto from = call.in.Get<uint64_t>();
  if (!call.in.Done()) call.Reject("a file's piece");
  return [&session = call.session, header = call.header, file, from] {
    uint64_t whole = 0;
    std::string piece;
    Status read = ReadToolkitFile(static_cast<LibraryFile>(file), from, &whole, &piece);
    Builder out;
    out.Put<int32_t>(read.ok() ? 0 : 1);
    out.Put<uint32_t>(0);
    out.Put<uint64_t>(whole);
    out.PutString(read.ok() ? piece : read.message());
    session.Answer(header, CUDA_SUCCESS, out.bytes());
  };
}

}  // namespace

class LibraryRecords::One final : public RecordPipeline::Call {
 public:
  One(LibraryRecords& records, const RecordView& record, const LibraryHeader& header,
      const LibraryRow& row, ServeCall& call)
      : records_(records), record_(record), header_(header), row_(row), call_(call) {
    if (row.works && header_.stream == 0)
      header_.stream = kLegacyStream;  // where the library works that is told of none
  }

  uint64_t Work() override {
    if (!row_.works || !records_.gate_.engaged()) return 0;
    const uint64_t key = WorkOf(header_, record_.body);
    // Captured, it costs nothing now: that must not be learnt for when it runs.
    return !row_.slow && records_.session_.streams().captures() > 0 ? ~key : key;
  }

  Status Submit(uint64_t work) override {
    return records_.SubmitSlow(call_, record_, header_, row_, work);
  }

  Status Serve() override {
    CUstream stream = nullptr;
    if (header_.stream != 0) {
      stream = call_.ResolveStream(header_.stream);
      if (call_.ready() && row_.blocks && !records_.IsIdle(call_, header_.stream))
        call_.stalled = call_.turn.awaits_bytes = true;
    }
    library_.emplace(call_, records_.loader_,
                     *FindLibraryTable(static_cast<LibraryId>(header_.library)), header_, stream);
    if (call_.ready()) {
      row_.serve(*library_);
      // What a handle was told is not what the server believes: by the client itself, or in vain.
      if (library_->status != 0 || TellsHandle(row_)) {
        LibraryObject* handle = records_.loader_.Find(library_->failed_object());
        if (handle != nullptr) {
          handle->has_stream = false;
          handle->pointer_mode = -1;
        }
      }
    }
    return {};
  }

  void Finish() override {
    if (library_.has_value())
      records_.Answer(*library_, header_);
    else
      records_.session_.Finish(call_);
  }

 private:
  LibraryRecords& records_;
  const RecordView& record_;
  LibraryHeader header_;
  const LibraryRow& row_;
  ServeCall& call_;
  std::optional<LibraryCall> library_;
};

void LibraryRecords::Answer(LibraryCall& library, const LibraryHeader& header) {
  ServeCall& call = library.base();
  if (call.result == CUDA_SUCCESS) library.Finish();
  if (call.parked) return;
  if (call.result == CUDA_SUCCESS && library.status != 0 && (call.header.flags & kWantReply) == 0) {
    Builder body;
    body.Put<uint64_t>(library.failed_object());
    body.Put<uint16_t>(header.library);
    body.Put<uint16_t>(header.function);
    body.Put<int32_t>(library.status);
    session_.outbox().Push(SessionCall::kLibraryFailed, body.bytes());
    // Work on a stream that was lost comes before the success of a wait, at which a program looks
    // rather than at the library.
    const char* function = library.table().rows[header.function].name;
    if (header.stream != 0 && IsLostWork(library.table().id, function, library.status)) {
      session_.outbox().Error(
          call.header, CUDA_ERROR_UNKNOWN,
          std::string(function) + " answered " + std::to_string(library.status));
    }
    return;
  }
  session_.Finish(call);
}

void LibraryRecords::Open(ServeCall& call, const LibraryHeader& header, const LibraryTable& table) {
  // Clients that know of it ask for the functions as well.
  const bool wants_functions =
      call.in.remaining_bytes() >= sizeof(uint64_t) && call.in.Get<uint64_t>() != 0;
  session_.OnLibraryHelper([this, record = call.header, header, &table, wants_functions] {
    std::string why;
    LoadedLibrary* loaded = loader_.Load(table, header.major, &why);
    int64_t version =
        loaded == nullptr || table.version == nullptr ? 0 : table.version(loaded->handle);
    Builder out;
    out.Put<int32_t>(loaded == nullptr ? table.internal_error : 0);
    out.Put<uint32_t>(0);
    out.PutBytes(&version, sizeof(version));
    out.PutString(loaded == nullptr ? why : loaded->path);
    if (wants_functions) {
      out.PutString(loaded == nullptr ? "" : FunctionsOf(table, *loaded));
    }
    session_.Answer(record, CUDA_SUCCESS, out.bytes());
  });
}

void LibraryRecords::ServeBlob(ServeCall& call, const LibraryHeader& header) {
  LibraryBlobs& blobs = loader_.blobs();
  const auto blob = call.in.Get<uint64_t>();
  if (header.function == kLibraryTake) {
    const auto from = call.in.Get<uint64_t>();
    std::string piece;
    if (!call.in.Done()) return call.Reject("a blob's piece");
    if (!blobs.Take(blob, from, &piece)) call.result = CUDA_ERROR_INVALID_VALUE;
    call.out.Put<int32_t>(0);
    call.out.Put<uint32_t>(0);
    call.out.PutString(piece);
    return session_.Finish(call);
  }
  std::span<const std::byte> bytes;
  if (header.function == kLibraryPut) bytes = call.in.GetBytes();
  if (!call.in.Done()) return call.Reject("a blob's bytes");
  if (header.function == kLibraryDrop)
    blobs.Drop(blob);
  else
    blobs.Append(blob, bytes);  // what is too large is missed by the call that names it
  call.out.Put<int32_t>(0);
  call.out.Put<uint32_t>(0);
  session_.Finish(call);
}

// Compilers: they know no context and no stream, and nothing on the log waits for them.
Status LibraryRecords::SubmitApart(const RecordView& record, const LibraryHeader& header,
                                   const LibraryRow& row) {
  auto bytes = std::make_shared<std::vector<std::byte>>(record.body.begin(), record.body.end());
  session_.OnToolchainHelper(
      [this, bytes, copy = record.header, header, &row] {
        Turn turn;
        ServeCall call(session_, api_, copy, *bytes, turn);
        LibraryHeader again{};
        ReadHeader(call.in, &again);
        call.on_helper = true;
        LibraryCall library(call, loader_,
                            *FindLibraryTable(static_cast<LibraryId>(header.library)), header,
                            nullptr);
        row.serve(library);
        Status status = call.RejectStatus();
        if (!status.ok()) return end_(status);
        Answer(library, header);
      },
      record.body.size());
  return {};
}

bool LibraryRecords::ServeQuestion(ServeCall& call, const LibraryHeader& header,
                                   const LibraryTable& table) {
  if (header.function == kLibraryOpen) {
    Open(call, header, table);
    return true;
  }
  if (header.function >= kLibraryPut && header.function <= kLibraryTake) {
    ServeBlob(call, header);
    return true;
  }
  if (header.function == kLibraryFile) {
    std::function<void()> answer = AnswerFile(call);
    if (!call.rejected()) session_.OnLibraryHelper(std::move(answer));
    return true;
  }
  return false;
}

Status LibraryRecords::Serve(const RecordView& record, Turn& turn, Served* served) {
  ServeCall call(session_, api_, record.header, record.body, turn);
  LibraryHeader header{};
  if (!ReadHeader(call.in, &header)) {
    return {Code::kMalformed,
            "session call " + std::to_string(record.header.call) + ": kLibrary's header"};
  }
  const LibraryTable* table = FindLibraryTable(static_cast<LibraryId>(header.library));
  if (table != nullptr && ServeQuestion(call, header, *table)) return call.RejectStatus();
  const LibraryRow* row =
      table != nullptr && header.function < table->count ? &table->rows[header.function] : nullptr;
  if (row == nullptr || row->serve == nullptr) {
    session_.Answer(record.header, CUDA_ERROR_NOT_SUPPORTED, {},
                    "no such function of that library");
    return {};
  }
  if (row->apart) return SubmitApart(record, header, *row);
  One one(*this, record, header, *row, call);
  return pipeline_.Pass(
      call,
      {.by_streams = header.stream != 0 && !row->slow, .needs_context = true, .slow = row->slow},
      one, served);
}

// A function that waits for its stream inside: this thread must not wait with it, as what the
// stream waits for may come by the log.
bool LibraryRecords::IsIdle(ServeCall& call, uint64_t wire_stream) {
  StreamState* stream = call.FindStream(wire_stream);
  if (stream == nullptr || session_.streams().capturing(stream->native)) return true;
  CUresult state = api_.cuStreamQuery(stream->native);
  if (state != CUDA_ERROR_NOT_READY) return true;
  if (call.turn.progress == 0) {
    call.turn.progress = 1;
    CUresult result = CUDA_SUCCESS;
    session_.streams().FenceStream(
        *stream, [this](CUresult) { session_.Wake(); }, &result);
  }
  return false;
}

// By the reading of the very function that will run: what it looks up there is what it holds.
Status LibraryRecords::HoldObjects(const RecordView& record, const LibraryHeader& header,
                                   const LibraryRow& row, ContextState* context,
                                   std::shared_ptr<void>* held) {
  Turn turn;
  ServeCall call(session_, api_, record.header, record.body, turn);
  call.context = context;
  LibraryHeader again{};
  ReadHeader(call.in, &again);
  LibraryCall library(call, loader_, *FindLibraryTable(static_cast<LibraryId>(header.library)),
                      header, nullptr);
  library.ReadNames();
  row.serve(library);
  *held = loader_.HoldNames(library.names());
  return call.RejectStatus();
}

// Creates, destroys, and what waits for the device: later records that name its objects wait for
// it.
Status LibraryRecords::SubmitSlow(const ServeCall& asked, const RecordView& record,
                                  const LibraryHeader& header, const LibraryRow& row,
                                  uint64_t admitted) {
  std::shared_ptr<WorkGate::SlowWork> work;
  if (admitted != 0) work = gate_.StartSlow(asked.context->device, admitted);
  if (row.works) {  // on the helper a library works on the default stream
    session_.streams().MarkActive(asked.context->legacy);
    session_.streams().NoteWork(asked.context->legacy);
  }
  std::shared_ptr<void> held;
  FARCALL_TRY(HoldObjects(record, header, row, asked.context, &held));
  auto bytes = std::make_shared<std::vector<std::byte>>(record.body.begin(), record.body.end());
  RecordHeader copy = record.header;
  ContextState* context = asked.context;
  const auto run = [this, bytes, copy, header, context, &row] {
    LibraryMemory::OnHelper();
    Turn turn;
    ServeCall call(session_, api_, copy, *bytes, turn);
    LibraryHeader again{};
    ReadHeader(call.in, &again);
    call.on_helper = true;
    call.context = context;
    CurrentContext::Set(api_, context->native);
    LibraryCall library(call, loader_, *FindLibraryTable(static_cast<LibraryId>(header.library)),
                        header, nullptr);
    row.serve(library);
    Status status = call.RejectStatus();
    if (!status.ok()) return end_(status);
    Answer(library, header);
  };
  session_.OnLibraryHelper(
      [run, work, held, submitted = LibraryMemory::Submitted()] {
        run();
        if (work != nullptr) {
          work->ended.store(true);  // the helper wakes the issue thread after each task
        }
      },
      record.body.size());
  return {};
}

}  // namespace farcall::server
