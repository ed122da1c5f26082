/** What the builder is given. */
export interface Recipe {
  /** Text of the Dockerfile. */
  readonly dockerfile: string;
  /** Files of the build context: text by path. */
  readonly files: ReadonlyMap<string, string>;
  /** The stage that holds nothing but the lock file, at {@link lockPath}; absent when there is none. */
  readonly lockStage?: string;
}
