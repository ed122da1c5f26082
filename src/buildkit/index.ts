/** A BuildKit client: README.md tells how it is used. */
export { type Address, parseAddress } from './address.ts';
export { maskAddresses } from './address-mask.ts';
export { type BuildRun, build } from './build.ts';
export {
  BuildError,
  type BuildErrorKind,
  type BuildErrorOptions,
  type SourceLine,
} from './build-error.ts';
export type { BuildResult, ImageDescriptor } from './build-result.ts';
export {
  type BuilderInfo,
  type BuilderWorker,
  BuildkitClient,
  type CallOptions,
  connect,
  type PruneOptions,
  type UsageRecord,
} from './client.ts';
export type { Credentials, CredentialsOf } from './credentials.ts';
export { directoryTree } from './directory-tree.ts';
export type { OpenSink } from './file-send.ts';
export type { FileTree, TreeEntry } from './file-tree.ts';
export { type MemoryFile, memoryTree } from './memory-tree.ts';
export type {
  BuildOptions,
  Cache,
  Exporter,
  FileExporter,
  ImageExporter,
  OtherCache,
  RegistryCache,
  SourceRule,
} from './options.ts';
export { PlainLog, type PlainLogWriter, plainLog } from './plain-log.ts';
export type { LogText, Progress, Status, Vertex, Warning } from './progress.ts';
export { SecretMask } from './secret-mask.ts';
export { readTlsFiles, type TlsFiles } from './tls-files.ts';
export type { TokenQuestion, TokenSource } from './token-source.ts';
export type { ConnectOptions, TlsOptions } from './transport.ts';
