import type { FileTree } from './files/file-tree.ts';
import type { Progress } from './progress/progress.ts';
import type { OpenSink } from './session/file-send.ts';
import type { CredentialsOf } from './session/login-question.ts';
import type { TokenSource } from './session/token-source.ts';

/** What is to be built, and where the result goes. */
export interface BuildOptions {
  /** Text of the Dockerfile. */
  readonly dockerfile: string;
  /** How messages call it; `Dockerfile` unless told. */
  readonly dockerfileName?: string;
  /** What takes the place of the context's `.dockerignore`; not empty. */
  readonly dockerignore?: string;
  /** What COPY and ADD take files from; nothing unless told. Its `.dockerignore` is heeded. */
  readonly context?: FileTree;
  /** What `FROM name` and `COPY --from=name` mean: files, or `docker-image://ref` or a URL. */
  readonly namedContexts?: Readonly<Record<string, FileTree | string>>;
  /**
   * Full names of the images that the build may take anything from; all unless told. It also holds for what
   * `ONBUILD` of a base image names, and for what the builder has already. BuildKit 0.12 and later.
   */
  readonly allowedImages?: readonly string[];
  /**
   * What else the build may fetch, such as `https://host/file` and `git://host/repository` for ADD; the last rule that
   * matches decides, and what none matches is allowed. BuildKit 0.12 and later.
   */
  readonly sourceRules?: readonly SourceRule[];
  /** The stage to be built, the last one unless told. */
  readonly target?: string | undefined;
  /** Such as `linux/arm64`; the builder's own unless told. More than one make an index. */
  readonly platforms?: readonly string[];
  readonly buildArgs?: Readonly<Record<string, string>>;
  readonly labels?: Readonly<Record<string, string>>;
  /** True builds every step anew, a list the steps of these stages. */
  readonly noCache?: boolean | readonly string[];
  /** Asks registries for base images even if the builder has them. */
  readonly pull?: boolean;
  /** The network of each RUN: the builder's own, none, or what the builder is set to (unless told). */
  readonly network?: 'host' | 'none';
  /** Lines of the containers' `/etc/hosts`: address by name. */
  readonly extraHosts?: Readonly<Record<string, string>>;
  /** By id, for `RUN --mount=type=secret,id=...`. */
  readonly secrets?: Readonly<Record<string, string | Uint8Array>>;
  /** Asked for each registry that wants to know who asks. */
  readonly credentials?: CredentialsOf;
  /** Asked first, for each registry that has a token service. */
  readonly tokens?: TokenSource;
  /** Where the result goes, nowhere unless told: the build is done for its errors then. */
  readonly exporters?: readonly Exporter[];
  readonly cacheImports?: readonly Cache[];
  readonly cacheExports?: readonly Cache[];
  /**
   * What `RUN --mount=type=cache` keeps is seen by builds with the same name only; unless told, by all builds of
   * the builder, whoever they are for.
   */
  readonly cacheNamespace?: string;
  /** Seconds since the epoch at which all that is made is dated: the same input gives the same digest. */
  readonly sourceDateEpoch?: number;
  /** True keeps a record of the build in the builder. */
  readonly history?: boolean;
  /** Powers that the build asks for besides those of `network`, such as `security.insecure`. */
  readonly entitlements?: readonly string[];
  /** More for the Dockerfile frontend, by the names that it knows. */
  readonly frontendAttrs?: Readonly<Record<string, string>>;
}

/** Allows or denies what a build fetches. */
export interface SourceRule {
  readonly action: 'allow' | 'deny';
  /** Regular expression, in the syntax of Go, for the identifier of the source. */
  readonly pattern: string;
}

export type Exporter = ImageExporter | FileExporter;

/** An image for a registry, or for the builder's own store. */
export interface ImageExporter {
  /** `moby` is the store of a Docker engine without containerd's. */
  readonly type: 'image' | 'moby';
  readonly name: string | readonly string[];
  readonly push?: boolean;
  /** The registry is plain HTTP or has a certificate that nobody knows; 127.0.0.1 is taken for HTTP anyway. */
  readonly insecure?: boolean;
  /** True unless told. */
  readonly ociMediaTypes?: boolean;
  readonly compression?: 'gzip' | 'zstd' | 'uncompressed' | 'estargz';
  /** Compresses layers of the base anew too. */
  readonly forceCompression?: boolean;
  /** More, by the names that the exporter knows. */
  readonly attrs?: Readonly<Record<string, string>>;
}

/** One file: an archive of the image (`oci`, `docker`) or of its file system (`tar`). */
export interface FileExporter {
  readonly type: 'oci' | 'docker' | 'tar';
  /** Called once when the file comes; it is whole when the build succeeds, and to be thrown away otherwise. */
  readonly sink: OpenSink;
  /** Name of the image within the archive. */
  readonly name?: string;
  readonly attrs?: Readonly<Record<string, string>>;
}

/** Where results of steps are kept for other builders. */
export type Cache = RegistryCache | OtherCache;

export interface RegistryCache {
  readonly type: 'registry';
  readonly ref: string;
  /** What is kept: all steps (`max`, unless told) or those of the result. */
  readonly mode?: 'max' | 'min';
  readonly insecure?: boolean;
  /** A cache that cannot be written fails the build; it does not unless told. */
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
