import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import standalone from 'ajv/dist/standalone/index.js';
import { build, type Plugin } from 'esbuild';
import { escaped } from './checked-responses.ts';
import { ajvOf, documentOf, type Response } from './response-schemas.ts';

const names = ['openapi.json', 'platform-openapi.json'];
const jsonSchema = '/content/application~1json/schema';

/**
 * Makes `response-check.ts` and what it imports into a few files in a folder, with the schemas compiled; returns the
 * address of the module. Each of a thousand servers would load and compile them for its first response: a seventh of its start.
 */
export async function bundleResponseCheck(folder: string): Promise<string> {
  await build({
    entryPoints: [fileURLToPath(new URL('response-check.ts', import.meta.url))],
    outdir: folder,
    bundle: true,
    splitting: true,
    format: 'esm',
    outExtension: { '.js': '.mjs' },
    platform: 'node',
    target: 'node24',
    legalComments: 'none',
    logLevel: 'error',
    plugins: [compiledSchemas],
    banner: {
      js: "import { createRequire as requireOf } from 'node:module';const require = requireOf(import.meta.url);",
    },
  });
  return pathToFileURL(join(folder, 'response-check.mjs')).href;
}

/** Replaces `response-schemas.ts`. */
const compiledSchemas: Plugin = {
  name: 'compiled-schemas',
  setup({ onResolve, onLoad }) {
    const namespace = 'compiled';
    onResolve({ filter: /\/response-schemas\.ts$/ }, () => ({ path: 'all', namespace }));
    onResolve({ filter: /^compiled:/ }, ({ path }) => ({ path: path.slice(9), namespace }));
    const resolveDir = import.meta.dirname;
    onLoad({ filter: /^all$/, namespace }, () => ({ contents: schemasModule(), resolveDir }));
    onLoad({ filter: /\.json$/, namespace }, async ({ path }) => ({
      contents: await validatorsModule(path),
      resolveDir,
    }));
  },
};

/** Returns the text of the module in place of `response-schemas.ts`. */
function schemasModule(): string {
  const entries = names.map(name => {
    const { paths, components } = documentOf(name);
    const kept = { paths, components: { responses: components.responses } };
    // The schemas are in the compiled checks.
    const text = JSON.stringify(kept, (key, value) => (key === 'schema' ? {} : value));
    return `'${name}': [${JSON.stringify(text)}, () => import('compiled:${name}')]`;
  });
  return `
    const documents = { ${entries.join(',\n')} };
    export async function describe(name) {
      const [text, load] = documents[name];
      const validatorOf = async pointer => (await load()).validators[pointer]();
      return { document: JSON.parse(text), validatorOf };
    }`;
}

/** Returns the text of the module with the checks of all schemas of a document. */
async function validatorsModule(name: string): Promise<string> {
  const document = documentOf(name);
  const ajv = await ajvOf(document, { source: true, esm: true });
  const pointers = [
    ...Object.entries(document.components.responses).flatMap(([key, response]) =>
      pointersOf(`#/components/responses/${key}`, response),
    ),
    ...Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).flatMap(([method, { responses }]) =>
        Object.entries(responses).flatMap(([status, response]) =>
          pointersOf(`#/paths/${escaped(path)}/${method}/responses/${status}`, response),
        ),
      ),
    ),
  ];
  const keys = pointers.map((pointer, at) => {
    const key = `check${at}`;
    ajv.addSchema({ $ref: `document${pointer}` }, key);
    return [key, key] as const;
  });
  const code = standalone.default(ajv, Object.fromEntries(keys));
  const entries = pointers.map((pointer, at) => `${JSON.stringify(pointer)}: () => check${at}`);
  return `${code}\nexport const validators = { ${entries.join(',\n')} };`;
}

function pointersOf(at: string, { content }: Response): string[] {
  return content?.['application/json'] ? [at + jsonSchema] : [];
}
