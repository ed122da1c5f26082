import type { ImageChange, InjectedLayer } from '../images/augment/image-change.ts';
import type { Submission } from './submission.ts';

/** What a submission wants changed in its image, with the layers as they were taken in. */
export function changeOf(
  { containerConfig = {} }: Submission,
  layers: readonly InjectedLayer[] | undefined,
): ImageChange {
  const { entrypoint, cmd, env, workingDir } = containerConfig;
  return {
    ...(entrypoint === undefined ? {} : { entrypoint }),
    ...(cmd === undefined ? {} : { cmd }),
    ...(workingDir === undefined ? {} : { workingDir }),
    ...(env === undefined || env.length === 0 ? {} : { env }),
    ...(layers === undefined || layers.length === 0 ? {} : { layers }),
  };
}
