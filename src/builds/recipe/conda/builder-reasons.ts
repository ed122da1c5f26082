import type { RecipeOptions } from '../recipe-kind.ts';
import { usualMambaImages } from './conda-options.ts';
import { type CondaSource, packageUrlsIn, pipIn } from './conda-source.ts';

/**
 * Returns what only a builder can do for a source, in words that name the fields of the request; empty for an image that
 * Sluice can make itself. Packages with link scripts also require a builder, but only the packages themselves show that.
 */
export function builderReasons(
  { wanted, channels, options }: CondaSource,
  { labels = {}, annotations = {}, created }: RecipeOptions,
): readonly string[] {
  const { mambaImage, commands } = options;
  const reasons: readonly (readonly [reason: string, isGiven: boolean])[] = [
    ["'condaOpts.commands'", commands.length > 0],
    [`'condaOpts.mambaImage' ${mambaImage}`, !usualMambaImages.includes(mambaImage)],
    ["the 'pip' packages", pipIn(wanted).length > 0],
    ["a package of a 'file' URL", packageUrlsIn(wanted).some(url => url.startsWith('file:'))],
    [
      "a channel of a 'file' or 'oci' URL",
      channels.some(channel => /^(?:file|oci):/.test(channel)),
    ],
    ["'labels'", Object.keys(labels).length > 0],
    ["'annotations'", Object.keys(annotations).length > 0],
    ["'created'", created !== undefined],
  ];
  return reasons.filter(([, isGiven]) => isGiven).map(([reason]) => reason);
}
