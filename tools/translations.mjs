// Says what translations lack, and takes out what nobody asks for any more: node tools/translations.mjs
//
// A translation is jupyter_dtf/locale/LANGUAGE/LC_MESSAGES/jupyter_dtf.json, in the form that JupyterLab reads: each message
// of the page, behind its context and \u0004 where it has one, with its translation, or one for each plural form.
// A new language begins as a file with a head like the German one's and nothing else.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import console from 'node:console';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

import ts from 'typescript';

const ROOT = path.join(path.dirname(fileURLToPath(import.meta.url)), '..');
const LOCALES = path.join(ROOT, 'jupyter_dtf/locale');
// Where the context, the message and its plural stand among a method's arguments.
const METHODS = { __: [-1, 0, -1], _n: [-1, 0, 1], _p: [0, 1, -1], _np: [0, 1, 2] };

/** Every message of the page by its key, with its forms: one, or singular and plural. Throws where it is no plain text. */
export function messages() {
  const found = new Map();
  for (const file of filesIn(path.join(ROOT, 'src'))) {
    const kind = file.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS;
    const visit = node => {
      if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
        const places = Object.hasOwn(METHODS, node.expression.name.text) && METHODS[node.expression.name.text];
        if (places) {
          add(found, file, node, ...places.map(place => (place < 0 ? '' : textOf(node.arguments[place]))));
        }
      }
      ts.forEachChild(node, visit);
    };
    visit(ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true, kind));
  }
  return found;
}

function add(found, file, node, context, message, plural) {
  if (context === undefined || message === undefined || plural === undefined) {
    throw new Error(`${file}: a message must be a text that stands there, got ${node.getText()}`);
  }
  const key = context === '' ? message : `${context}\u0004${message}`;
  const forms = plural === '' ? [message] : [message, plural];
  const known = found.get(key) ?? forms;
  if (known.length !== forms.length) {
    throw new Error(`${file}: “${message}” is asked for with and without a plural: one of them needs a context (_p)`);
  }
  found.set(key, forms);
}

function textOf(node) {
  if (node && ts.isStringLiteralLike(node)) {
    return node.text;
  }
  if (node && ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) {
    const [left, right] = [textOf(node.left), textOf(node.right)];
    return left === undefined || right === undefined ? undefined : left + right;
  }
  return undefined;
}

function filesIn(directory) {
  return readdirSync(directory, { recursive: true })
    .filter(name => /\.tsx?$/.test(name))
    .map(name => path.join(directory, name));
}

/** The translations that there are: the language, its file and what is in it. */
export function translations() {
  return readdirSync(LOCALES, { withFileTypes: true })
    .filter(entry => entry.isDirectory())
    .map(({ name }) => {
      const file = path.join(LOCALES, name, 'LC_MESSAGES/jupyter_dtf.json');
      return { language: name, file, content: JSON.parse(readFileSync(file, 'utf8')) };
    });
}

/** What of the messages a translation does not have, and what it has of none. */
export function differences(wanted, content) {
  const own = Object.keys(content).filter(key => key !== '');
  const missing = [...wanted.keys()].filter(key => !content[key] || content[key].some(form => form === ''));
  return { missing, unused: own.filter(key => !wanted.has(key)) };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const wanted = messages();
  for (const { language, file, content } of translations()) {
    const { missing, unused } = differences(wanted, content);
    const keys = [...wanted.keys()].sort((a, b) => (a < b ? -1 : 1));
    const kept = keys.map(key => [key, content[key] ?? wanted.get(key).map(() => '')]);
    writeFileSync(file, `${JSON.stringify({ '': content[''], ...Object.fromEntries(kept) }, null, 2)}\n`);
    console.log(`${language}: ${missing.length} to be translated, where "" stands now; ${unused.length} taken out`);
    missing.forEach(key => console.log(`  ${JSON.stringify(key)}`));
  }
}
