import { usualLevel } from '../../archives/deflate/deflate.ts';
import { type Compression, compressionLevels } from '../../images/sif/definition/index.ts';
import { refuse } from '../recipe/text/text-field.ts';
import type { BuildPlan, LayerCompression } from './build-plan.ts';

/** Compression of an image, as a request specifies it. */
export interface SubmittedCompression {
  readonly mode?: string | undefined;
  readonly level?: number | undefined;
  readonly force?: boolean | undefined;
}

interface CompressionFields {
  readonly buildCompression?: SubmittedCompression | undefined;
  readonly format?: 'docker' | 'sif' | undefined;
}

/** The highest level of each mode for layers. Source: BuildKit, exporter attribute `compression-level`. */
const mostForLayers: Readonly<Record<LayerCompression['mode'], number>> = {
  gzip: 9,
  zstd: 22,
  estargz: 9,
};

/** Checks the compression of a request. Throws a `Fault` (400) for a mode or level that does not exist. */
export function checkCompression(fields: CompressionFields): void {
  readSifCompression(fields);
  readLayerCompression(fields);
}

/**
 * Returns the compression for the file system of a Singularity image; undefined where the request does not specify it,
 * and for images of another format. eStargz is a form of gzip. Throws a `Fault` (400).
 */
export function readSifCompression({
  buildCompression: submitted,
  format,
}: CompressionFields): Compression | undefined {
  if (submitted === undefined || format !== 'sif') return undefined;
  const asked = modeOf(submitted);
  const mode = asked === 'estargz' ? 'gzip' : asked;
  const { most, usual } = compressionLevels[mode];
  return { mode, level: levelOf(submitted, asked, 1, most) ?? usual };
}

/**
 * Returns the compression for the layers that a build makes; undefined for the default, and for Singularity images.
 * Throws a `Fault` (400).
 */
export function readLayerCompression({
  buildCompression: submitted,
  format,
}: CompressionFields): LayerCompression | undefined {
  if (submitted === undefined || format === 'sif') return undefined;
  const mode = modeOf(submitted);
  const level = levelOf(submitted, mode, 0, mostForLayers[mode]);
  const { force = mode === 'estargz' } = submitted;
  if (mode === 'gzip' && level === undefined && !force) return undefined;
  return { mode, ...(level === undefined ? {} : { level }), ...(force ? { force } : {}) };
}

/**
 * Returns the compression for images of packages that Sluice makes itself: undefined for one that gives the bytes of the default.
 */
export function nativeCompression(
  asked: LayerCompression | undefined,
): LayerCompression | undefined {
  if (!asked) return undefined;
  const { mode, level, force } = asked;
  const isUsual = mode === 'gzip' && (level === undefined || level === usualLevel);
  return isUsual && !force ? undefined : asked;
}

function modeOf({ mode = 'gzip' }: SubmittedCompression): LayerCompression['mode'] {
  if (mode === 'gzip' || mode === 'zstd' || mode === 'estargz') return mode;
  return refuse("'buildCompression.mode' can be gzip, zstd or estargz");
}

function levelOf(
  { level }: SubmittedCompression,
  mode: string,
  least: number,
  most: number,
): number | undefined {
  if (level === undefined || (Number.isInteger(level) && level >= least && level <= most)) {
    return level;
  }
  return refuse(`'buildCompression.level' can be ${least} to ${most} for ${mode}`);
}

/** Returns the compression of a Singularity image in the key of a build: none for the default one. */
export function compressionOption(compression: Compression | undefined): Record<string, string> {
  if (!compression) return {};
  const { mode, level } = compression;
  const isUsual = mode === 'gzip' && level === compressionLevels.gzip.usual;
  return isUsual ? {} : { compression: `${mode}:${level}` };
}

/** Returns the compression of layers in the key of a build. */
export function layersOption(compression: LayerCompression | undefined): Record<string, string> {
  if (!compression) return {};
  const { mode, level = '', force } = compression;
  return { layers: `${mode}:${level}${force ? ':force' : ''}` };
}

/**
 * Returns warnings about a compression that a request specifies and that its image does not have.
 *
 * @param plan the build; undefined for an image that is served as it is
 */
export function compressionWarnings(
  fields: CompressionFields,
  plan: BuildPlan | undefined,
): string[] {
  const { buildCompression: submitted } = fields;
  if (submitted === undefined) return [];
  if (fields.format === 'sif') {
    if (submitted.mode === 'estargz') {
      return [
        "'buildCompression.mode' estargz is for layers: the Singularity image is compressed with gzip",
      ];
    }
    return submitted.force
      ? ["'buildCompression.force' is ignored: a Singularity image has no layers to compress again"]
      : [];
  }
  if (readLayerCompression(fields) === undefined) return [];
  if (plan === undefined || plan.origin.kind === 'image') {
    return ["'buildCompression' is ignored: the layers of an existing image stay as they are"];
  }
  return [];
}
