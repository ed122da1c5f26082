import { containerRequestSchema } from '../../http/api/container/container-schema.ts';
import { parseBody } from '../../http/route/parse-input.ts';
import type { Submission } from '../../request/submission.ts';
import { type AskForm, channelsIn } from './ask-form.ts';
import { entrypointWords } from './entrypoint-words.ts';

/** Returns the container request of a form, checked as a body of the JSON API. Throws a `Fault` (400). */
export function submissionOf(form: AskForm): Submission {
  return parseBody(containerRequestSchema, {
    ...what(form),
    ...changes(form),
    ...(form.platforms.length > 0 ? { containerPlatform: form.platforms.join(',') } : {}),
    // A Singularity image is always pushed to a repository.
    ...(form.isKept || form.isSingularity ? { freeze: true, defaultRepository: true } : {}),
    ...(form.isSingularity ? { format: 'sif' } : {}),
    ...textAs('buildRepository', form.repository),
  });
}

function what(form: AskForm): object {
  switch (form.by) {
    case 'image':
      return { containerImage: form.image.trim() };
    case 'dockerfile':
      return { containerFile: Buffer.from(form.dockerfile).toString('base64') };
    case 'packages': {
      const channels = channelsIn(form);
      return {
        packages: {
          type: 'CONDA',
          entries: form.packages,
          ...(channels.length > 0 ? { channels } : {}),
          condaOpts: textAs('baseImage', form.base),
        },
      };
    }
  }
}

function changes({ env, entrypoint, workdir }: AskForm): object {
  const variables = env.split('\n').filter(line => line.trim() !== '');
  const words = entrypointWords('containerConfig.entrypoint', entrypoint);
  const config = {
    ...(variables.length > 0 ? { env: variables } : {}),
    ...(words.length > 0 ? { entrypoint: words } : {}),
    ...textAs('workingDir', workdir),
  };
  return Object.keys(config).length > 0 ? { containerConfig: config } : {};
}

function textAs(name: string, text: string): Readonly<Record<string, string>> {
  return text.trim() === '' ? {} : { [name]: text.trim() };
}
