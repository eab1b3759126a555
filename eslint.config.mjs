import js from '@eslint/js';
import reactHooks from 'eslint-plugin-react-hooks';
import tseslint from 'typescript-eslint';

// Imports point one way: api <- model <- plots <- views <- widgets <- plugins.
const ROOMS = ['api', 'model', 'plots', 'views', 'widgets', 'plugins'];

// What tsconfig.test.json knows; the browser tests are Node programs of their own.
const TYPED = ['src/**/*.{ts,tsx}', 'tests/ts/**/*.{ts,tsx}', 'vitest.config.ts'];

const oneWay = ROOMS.map((room, index) => ({
  files: [`src/${room}/**/*.{ts,tsx}`],
  rules: {
    'no-restricted-imports': [
      'error',
      {
        patterns: [
          ...ROOMS.slice(index + 1).map(later => ({
            group: [`**/${later}/*`, `**/${later}`],
            message: `${room}/ does not import ${later}/: imports point from plugins towards api.`
          })),
          ...(index < ROOMS.indexOf('views')
            ? [{ group: ['react', 'react-dom'], message: `${room}/ knows nothing of React.` }]
            : []),
          ...(room === 'plots'
            ? []
            : [{ group: ['@bokeh/*'], message: 'BokehJS is loaded by plots/bokeh.ts alone, when a dashboard opens.' }])
        ]
      }
    ]
  }
}));

export default tseslint.config(
  {
    ignores: ['lib', 'node_modules', 'jupyter_dtf', 'build', 'dist', '.venv', 'artifacts', 'docs', 'src/api/schema.ts']
  },
  js.configs.recommended,
  ...tseslint.configs.recommended.map(config => ({ ...config, files: ['tests/ui/**/*.ts'] })),
  ...tseslint.configs.recommendedTypeChecked.map(config => ({ ...config, files: TYPED })),
  {
    files: TYPED,
    languageOptions: { parserOptions: { project: './tsconfig.test.json', tsconfigRootDir: import.meta.dirname } },
    plugins: { 'react-hooks': reactHooks },
    rules: {
      'react-hooks/rules-of-hooks': 'error',
      'react-hooks/exhaustive-deps': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      '@typescript-eslint/no-misused-promises': ['error', { checksVoidReturn: { attributes: false } }],
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/unbound-method': 'off', // a signal takes a method and its object
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      curly: 'error'
    }
  },
  ...oneWay
);
