/** All that a build needs, and all that decides its result. No credentials are in it: it is kept as JSON. */
export interface BuildPlan {
  /** Same key, same image. */
  readonly key: string;
  /** The image that it makes, `registry/repository:tag`. */
  readonly target: string;
  readonly dockerfile: string;
  /** The build context: text by path. */
  readonly files: Readonly<Record<string, string>>;
  /** The stage whose files are the lock file of the environment, where there is one. */
  readonly lockStage: string | undefined;
  /** `linux/amd64`; several make an index. */
  readonly platforms: readonly string[];
  /** The images it begins with; whoever asks for the build must be able to pull them. */
  readonly baseImages: readonly string[];
  /** Where layers are cached, `registry/repository`. */
  readonly cache: string | undefined;
}
