import type { Warning } from './progress/progress.ts';
import type { Journal } from './progress/step-journal.ts';

/** What a build made. With several exporters these are of the last one that told. */
export interface BuildResult {
  /** Of the image's manifest or index; undefined when nothing but a `tar` was made. */
  readonly digest: string | undefined;
  /** Of the image's configuration; undefined for an index. */
  readonly configDigest: string | undefined;
  readonly descriptor: ImageDescriptor | undefined;
  /** The names under which the image can be had. */
  readonly names: readonly string[];
  readonly warnings: readonly Warning[];
  /** Numbered steps of the Dockerfile, and how many of them needed no work. */
  readonly steps: { readonly total: number; readonly cached: number };
  /** All that the exporters told, by the names that BuildKit gives it. */
  readonly response: Readonly<Record<string, string>>;
}

/** The descriptor of an image as the OCI image specification has it. */
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
