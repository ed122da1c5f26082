import type { Warning } from './progress/progress.ts';
import type { Journal } from './progress/step-journal.ts';

/** The result of a build. With several exporters, the result of the last one that reported it. */
export interface BuildResult {
  /** Digest of the image's manifest or index. Undefined if the build only made a `tar`. */
  readonly digest: string | undefined;
  /** Digest of the image's config. Undefined for an index. */
  readonly configDigest: string | undefined;
  readonly descriptor: ImageDescriptor | undefined;
  /** Names of the image. */
  readonly names: readonly string[];
  readonly warnings: readonly Warning[];
  /** Number of steps of the Dockerfile, and how many of them came from the cache. */
  readonly steps: { readonly total: number; readonly cached: number };
  /** Everything that the exporters reported, by BuildKit's names. */
  readonly response: Readonly<Record<string, string>>;
}

/** Descriptor of an image. Source: OCI image specification, descriptor.md. */
export interface ImageDescriptor {
  readonly mediaType: string;
  readonly digest: string;
  /** Bytes of the manifest or index. */
  readonly size: number;
  readonly annotations?: Readonly<Record<string, string>>;
}

export function resultOf(
  response: Readonly<Record<string, string>>,
  journal: Journal,
): BuildResult {
  return {
    digest: response['containerimage.digest'],
    configDigest: response['containerimage.config.digest'],
    descriptor: descriptorIn(response['containerimage.descriptor']),
    names: response['image.name']?.split(',') ?? [],
    warnings: journal.warnings,
    steps: journal.steps,
    response,
  };
}

function descriptorIn(base64: string | undefined): ImageDescriptor | undefined {
  if (base64 === undefined) return undefined;
  return JSON.parse(Buffer.from(base64, 'base64').toString()) as ImageDescriptor;
}
