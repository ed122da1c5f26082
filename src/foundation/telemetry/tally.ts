export const tallyKinds = [
  'build requests',
  'build results',
  'build times',
  'build steps',
  'package layers',
  'cached blobs',
  'limits',
  'refused callers',
  'pulled images',
] as const;
export type TallyKind = (typeof tallyKinds)[number];

/** What is counted by day, and the labels of each count. */
export interface TallyLabels {
  'build requests': { readonly answer: 'existing image' | 'running build' | 'new build' };
  'build results': { readonly recipe: string; readonly result: string };
  /** The bucket is one of `time-buckets.ts`. */
  'build times': {
    readonly recipe: string;
    readonly phase: 'waiting' | 'running';
    readonly bucket: string;
  };
  /** How a step on a builder ended. */
  'build steps': { readonly state: string };
  'package layers': { readonly source: 'kept' | 'made' };
  'cached blobs': { readonly source: 'cache' | 'registry' };
  /** The name of a limit that refused a request. */
  limits: { readonly limit: string };
  /** The caller that a limit refused. */
  'refused callers': { readonly caller: string };
  /** `<registry>/<repository>` */
  'pulled images': { readonly image: string };
}

/** Counts events. A call costs a look into memory, and never fails. */
export interface Tally {
  add<K extends Exclude<TallyKind, 'build times'>>(
    kind: K,
    labels: TallyLabels[K],
    count?: number,
  ): void;
  /** Counts a duration (ms). */
  observe(
    kind: 'build times',
    labels: Omit<TallyLabels['build times'], 'bucket'>,
    ms: number,
  ): void;
}

/** For commands and tests, which count nothing. */
export const noTally: Tally = { add() {}, observe() {} };
