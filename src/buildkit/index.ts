/** A BuildKit client, documented in README.md. Importing it is cheap: gRPC is loaded at the first call. */

export { build } from './build.ts';
export type { BuildResult, ImageDescriptor } from './build-result.ts';
export { type BuildkitClient, connect } from './client.ts';
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
export { readTlsFiles, type TlsFiles } from './grpc/tls-files.ts';
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
export { maskAddresses } from './progress/address-mask.ts';
export {
  PlainLog,
  type PlainLogWriter,
  plainLog,
  type StepChange,
  statusText,
} from './progress/plain-log.ts';
export type { LogText, Progress, Status, Vertex, Warning } from './progress/progress.ts';
export { SecretMask } from './progress/secret-mask.ts';
export type { BlobSink, BlobWriter } from './session/blob-send.ts';
export type { OpenSink } from './session/file-send.ts';
export type { Credentials, CredentialsOf } from './session/login-request.ts';
export { readSshKey, type SshKey, SshKeyError } from './session/ssh/index.ts';
export type { TokenRequest, TokenSource } from './session/token-source.ts';
