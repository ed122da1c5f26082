/** A BuildKit client, documented in README.md. Importing it is cheap: gRPC is loaded at the first call. */

export { build } from './build.ts';
export { type BuildkitClient, connect, readTlsFiles, type TlsFiles } from './client.ts';
export {
  BuildError,
  type BuildErrorKind,
  type BuildErrorOptions,
  type SourceLine,
} from './errors/build-error.ts';
export {
  directoryTree,
  type FileTree,
  type Found,
  type MemoryFile,
  memoryTree,
  type TreeEntry,
  type TreeSelection,
  walkTree,
} from './files/index.ts';
export { type Address, parseAddress } from './grpc/address.ts';
export type { ConnectOptions, TlsOptions } from './grpc/channel.ts';
export type {
  BuilderInfo,
  BuilderWorker,
  CallOptions,
  PruneOptions,
  UsageRecord,
} from './grpc/control-calls.ts';
export type {
  BlobExporter,
  BuildOptions,
  BuildRun,
  Cache,
  Exporter,
  FileExporter,
  ImageExporter,
  OtherCache,
  RegistryCache,
  ReplacedImage,
  SourceRule,
  SshSource,
} from './options.ts';
export {
  PlainLog,
  type PlainLogWriter,
  plainLog,
  type StepChange,
  statusText,
} from './progress/plain-log.ts';
export type { LogText, Progress, Status, Vertex, Warning } from './progress/progress.ts';
export { maskAddresses, SecretMask } from './progress/secret-mask.ts';
export type { BuildResult, ImageDescriptor } from './run-build.ts';
export type {
  Credentials,
  CredentialsOf,
  TokenRequest,
  TokenSource,
} from './session/auth-provider.ts';
export type { BlobSink, BlobWriter, OpenSink } from './session/exporter-sinks.ts';
export { readSshKey, type SshKey, SshKeyError } from './session/ssh/index.ts';
