import type { FileTree } from './files/file-tree.ts';
import type { Progress } from './progress/progress.ts';
import type { CredentialsOf, TokenSource } from './session/auth-provider.ts';
import type { BlobSink, OpenSink } from './session/exporter-sinks.ts';
import type { SshKey } from './session/ssh/ssh-key.ts';

/** The input of a build and the destinations of its result. */
export interface BuildOptions {
  /** Text of the Dockerfile. */
  readonly dockerfile: string;
  /** Name of the Dockerfile in messages. Default: `Dockerfile`. */
  readonly dockerfileName?: string;
  /** Replaces the context's `.dockerignore`. Must not be empty. */
  readonly dockerignore?: string;
  /** Files for COPY and ADD. Its `.dockerignore` is honoured. Default: no files. */
  readonly context?: FileTree;
  /** Meaning of `FROM name` and `COPY --from=name`: files, `docker-image://ref` or a URL. */
  readonly namedContexts?: Readonly<Record<string, FileTree | string>>;
  /**
   * Full names of the images that the build may use. The list also applies to images that `ONBUILD` names and to
   * images that the builder already has. Default: all images. Requires BuildKit 0.12.
   */
  readonly allowedImages?: readonly string[];
  /**
   * Images that the builder pulls under another name, by the full names that the Dockerfile, its named contexts and
   * `ONBUILD` use for them. With this list, the build may use no images but these and `allowedImages`. Progress and
   * errors do not show the other names. Requires BuildKit 0.12.
   */
  readonly replacedImages?: Readonly<Record<string, ReplacedImage>>;
  /**
   * Other sources that the build may fetch, such as `https://host/file` and `git://host/repository` for ADD. The last
   * rule that matches decides. A source without a matching rule is allowed. Requires BuildKit 0.12.
   */
  readonly sourceRules?: readonly SourceRule[];
  /** The stage to build. Default: the last one. */
  readonly target?: string | undefined;
  /** Platforms such as `linux/arm64`. Several platforms produce an index. Default: the builder's platform. */
  readonly platforms?: readonly string[];
  readonly buildArgs?: Readonly<Record<string, string>>;
  readonly labels?: Readonly<Record<string, string>>;
  /** `true` rebuilds every step; a list rebuilds the steps of these stages. */
  readonly noCache?: boolean | readonly string[];
  /** Asks registries for base images even if the builder has them. */
  readonly pull?: boolean;
  /** Network of each RUN: the network of the builder's host, or none. Default: the builder's setting. */
  readonly network?: 'host' | 'none';
  /** Lines of the containers' `/etc/hosts`: address by name. */
  readonly extraHosts?: Readonly<Record<string, string>>;
  /** Secrets by id, for `RUN --mount=type=secret,id=...`. */
  readonly secrets?: Readonly<Record<string, string | Uint8Array>>;
  /** SSH agents by id, for `RUN --mount=type=ssh,id=...` and for git over SSH. A mount without an id has `default`. */
  readonly ssh?: Readonly<Record<string, SshSource>>;
  /** Called for each registry that requires a login. */
  readonly credentials?: CredentialsOf;
  /** Called first, for each registry with a token service. */
  readonly tokens?: TokenSource;
  /** Where the result goes. Default: nowhere, which only checks that the build succeeds. */
  readonly exporters?: readonly Exporter[];
  readonly cacheImports?: readonly Cache[];
  readonly cacheExports?: readonly Cache[];
  /**
   * Builds with the same namespace share the content of `RUN --mount=type=cache`. Default: all builds of the builder
   * share it.
   */
  readonly cacheNamespace?: string;
  /** Date of everything in the image, in seconds since the epoch. With it, the same input produces the same digest. */
  readonly sourceDateEpoch?: number;
  /** Keeps a record of the build in the builder. */
  readonly history?: boolean;
  /** Additional privileges of the build, such as `security.insecure`. */
  readonly entitlements?: readonly string[];
  /** Additional attributes of the Dockerfile frontend. */
  readonly frontendAttrs?: Readonly<Record<string, string>>;
}

/** Private keys, or the agent at a Unix socket of this machine. */
export type SshSource = { readonly keys: readonly SshKey[] } | { readonly socket: string };

/** An image that the builder pulls under another name. */
export interface ReplacedImage {
  /** The full name that the builder pulls. */
  readonly pulled: string;
  /** The name that progress and errors show. Default: the name in the Dockerfile. */
  readonly shown?: string;
}

/** Allows or denies a source of a build. */
export interface SourceRule {
  readonly action: 'allow' | 'deny';
  /** Regular expression in Go's syntax for the identifier of the source. */
  readonly pattern: string;
}

export type Exporter = ImageExporter | BlobExporter | FileExporter;

/** An image for a registry, or for the builder's own store. */
export interface ImageExporter {
  /** `moby` is the store of a Docker engine that does not use containerd's store. */
  readonly type: 'image' | 'moby';
  readonly name: string | readonly string[];
  readonly push?: boolean;
  /** Allows plain HTTP and unknown certificates. 127.0.0.1 is always accessed over HTTP. */
  readonly insecure?: boolean;
  /** Default: true. */
  readonly ociMediaTypes?: boolean;
  readonly compression?: 'gzip' | 'zstd' | 'uncompressed' | 'estargz';
  /** Also recompresses the layers of the base image. */
  readonly forceCompression?: boolean;
  /** Additional attributes of the exporter. */
  readonly attrs?: Readonly<Record<string, string>>;
}

/** The manifests, configs and layers of an image, each by its digest. A build has at most one such exporter. */
export interface BlobExporter {
  readonly type: 'oci';
  /** Receives manifests and indexes last. */
  readonly blobs: BlobSink;
  readonly attrs?: Readonly<Record<string, string>>;
}

/** One file: an archive of the image (`oci`, `docker`) or of its file system (`tar`). */
export interface FileExporter {
  readonly type: 'oci' | 'docker' | 'tar';
  /** Called once when the file arrives. The file is complete if the build succeeds; discard it otherwise. */
  readonly sink: OpenSink;
  /** Name of the image within the archive. */
  readonly name?: string;
  readonly attrs?: Readonly<Record<string, string>>;
}

/** A cache of step results for other builders. */
export type Cache = RegistryCache | OtherCache;

export interface RegistryCache {
  readonly type: 'registry';
  readonly ref: string;
  /** Cached steps: all of them (`max`) or those of the result. Default: `max`. */
  readonly mode?: 'max' | 'min';
  readonly insecure?: boolean;
  /** Fails the build if the cache cannot be written. Default: false. */
  readonly required?: boolean;
  readonly attrs?: Readonly<Record<string, string>>;
}

export interface OtherCache {
  readonly type: 'inline' | 'gha' | 's3' | 'azblob';
  readonly attrs?: Readonly<Record<string, string>>;
}

/** How a build runs. */
export interface BuildRun {
  /** Ends the build, which rejects with kind `cancelled` once the builder has ended it too. */
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number;
  /** An error that it throws ends the build, which rejects with that error. */
  readonly onProgress?: (progress: Progress) => void;
}
