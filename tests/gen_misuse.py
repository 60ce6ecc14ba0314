#!/usr/bin/env python3
"""The calls of tests/test_misuse.c: every public function of the headers, with one argument after the other made bad.

    python3 tests/gen_misuse.py           writes tests/misuse_calls.h
    python3 tests/gen_misuse.py --check   says whether it is current; a function that cannot be called is an error

Arguments are made by name and type from the tables below, by functions of tests/test_misuse.c. A new public function of
known types needs no entry; else say here how to make its arguments, which of them may be NULL, and what it takes over."""
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
HEADERS = ["tensor", "graph", "layers", "optim", "input", "callbacks", "train", "export", "import"]

# Never called, and why.
SKIP = {
    "tp_set_allocator": "the test counts blocks with its own",
    "tp_set_memory": "it would replace the test's allocator; test_tensor.c passes bad arguments",
    "tp_set_log": "the test reads the log with its own; NULL is the default",
    "tp_cond_wait": "waits for ever, as it should",
}
# Called with bad arguments only: with good ones they wait, or do what test_train.c looks at.
NO_GOOD_CALL = """tp_cond_wait_for tp_launch_train_with_config tp_train tp_train_with_defaults tp_trainer_main_loop
tp_trainer_run_step tp_thread_start tp_df_send_zmq_""".split()
# What fails with good arguments too: because that is what it does, or because of what was not done before.
MAY_FAIL = """tp_fail tp_infer_fail tp_graph_fail tp_df_fail tp_callback_fail tp_monitor_fail tp_inferencer_fail tp_poison tp_stop
tp_name_scope_pop tp_variable_scope_pop tp_device_leave tp_tower_leave tp_argscope_end tp_getter_next tp_tower_all_reduce
tp_tower_func_call tp_inflate tp_inflate_alloc tp_npy_load tp_npy_parse tp_safetensors_load tp_safetensors_parse
tp_tf_checkpoint_load tp_exec_print_plan tp_exec_plan_info tp_request_feed tp_request_trace tp_request_wait tp_request_datapoints tp_argscope_set tp_regularize_cost tp_regularize_cost_
tp_regularize_cost_from_collection tp_datapoint_unpack tp_zmq_input_ tp_df_remote_zmq_ tp_zmq_input_to_dataset tp_df_mnist_ tp_df_idx_ tp_idx_load tp_idx_parse tp_input_get_tensors
tp_input_reset_state tp_feedfree_input tp_queue_input_refill_queue tp_monitors_get_latest tp_cb_dump_tensors_ tp_cb_min_saver_ tp_cb_max_saver_ tp_import_onnx
tp_inference_runner_register_hook tp_cb_human_hyper_param_setter_ tp_load_existing_epoch_number tp_export_serving
tp_load_existing_json tp_load_existing_stats tp_trainer_initialize tp_auto_resume_train_config tp_import_onnx_parse tp_setter_current_value
tp_cb_model_saver_ tp_monitor_json_writer tp_predictor_carry tp_minimize tp_bn_relu_ tp_bn_relu tp_batch_renorm_ tp_batch_norm_ tp_callback_before_run
tp_tower_handle_get_tensors tp_tower_handle_get_variables tp_input_cached_name_scope_push tp_setter_current_array tp_trainer_initialize_hooks
tp_df_cifar10_ tp_df_cifar100_ tp_df_svhn_digit_ tp_df_npz_ tp_df_tfrecord_ tp_df_csv_ tp_df_text_chars_ tp_df_text_words_ tp_df_image_from_file_
tp_df_image_folder_ tp_df_image_list_ tp_df_lmdb_ tp_lmdb_save tp_image_decode tp_map_image tp_map_image_file tp_example_parse tp_df_image_classes
tp_callback_setup_graph tp_train_state_save tp_train_state_load tp_checkpoint_state_latest tp_cb_send_stat
tp_cb_dump_tensor_as_image_ tp_cb_graph_profiler_ tp_debug_cli_add_tensor_filter tp_stop_flag_wait
tp_cb_data_parallel_inference_runner_ tp_trainer_set_tower_func tp_trainer_get_predictor tp_cluster_task""".split()

# NULL is fine, as the header says. "function.parameter", "*.parameter" or "function.*".
NULL_OK = """
tp_default_multi_gpu_trainer.devices *.user *.at tp_callback_to_hook.train tp_trainer_register_callback_ex.registered tp_free.p tp_realloc.p tp_free_aligned.p tp_arena_free.a tp_buf_free.b tp_tensor_free.t tp_pool_free.p tp_queue_free.q tp_aug_free.a tp_transform_free.t tp_aug_random_choose.prob
tp_thread_join.t tp_thread_detach.t tp_mutex_free.m tp_mutex_lock.m tp_mutex_unlock.m tp_cond_free.c tp_cond_wait_for.c tp_cond_wait_for.m
tp_cond_signal.c tp_cond_broadcast.c tp_cpu_device_new.isa tp_cpu_devices_new.isa tp_writer_abort.w tp_npz_abort.w
tp_dict_free.d tp_tensor_view.data tp_fail.fmt tp_log.fmt tp_log_once.fmt tp_stop.fmt tp_infer_fail.fmt
tp_arena_printf.fmt tp_buf_printf.fmt tp_graph_fail.fmt tp_df_fail.fmt tp_callback_fail.fmt tp_monitor_fail.fmt
tp_inferencer_fail.fmt tp_logger_auto_set_dir.name tp_buf_put.p tp_convert.dst tp_convert.src
tp_graph_new.config tp_graph_free.g tp_graph_to_dot.targets tp_apply.attrs tp_is_poison.n tp_poison.g
tp_name_scope_push.name tp_under_name_scope_push.name tp_backup_collection.keys tp_restore_collection.b
tp_build_on_towers.outputs tp_gradients_from.dy tp_group.name tp_print.message tp_check_numerics.message
tp_top_k.indices tp_nn_batch_norm_train.out_mean tp_nn_batch_norm_train.out_var tp_ctc_loss.a tp_nn_lstm.last_h
tp_nn_lstm.last_c tp_nn_gru.last_h *.pred tp_apply_rmsprop.mgs tp_add_tensor_summary.name
tp_add_tensor_summary.collection tp_add_activation_summary.name tp_add_activation_summary.collection
tp_add_moving_summary_n.d tp_session_new.c tp_session_free.s tp_exec_free.e tp_session_run.values tp_eval_now.value tp_check_gradients.worst tp_sym_mse.name tp_sym_kl_divergence.name tp_sym_smooth_labels.name
tp_sym_weighted_loss.name tp_freeze_variables_.d tp_minimize.regex tp_cosine_decay.step tp_warm_up.step tp_exec_run.values
tp_hooked_run.values tp_hooked_session_free.h tp_new_session_creator.config tp_session_init_run.i
tp_session_init_free.i tp_smart_init.path tp_saver_restore.path tp_predictor_free.p tp_save_checkpoint.variables
tp_get_all_checkpoints.prefix tp_get_all_checkpoints.dir tp_regularize_cost.name tp_regularize_cost_from_collection.name
tp_argscope_begin.at tp_linear_print.user tp_sym_print_stat.message tp_optimizer_new.apply_gradients
tp_optimizer_proxy.apply_gradients tp_optimizer_proxy.name tp_optimizer_slot.suffix tp_sgd_.d tp_momentum_.d
tp_nesterov_.d tp_adam_.d tp_adamw_.d tp_rmsprop_.d tp_adagrad_.d tp_adadelta_.d tp_ftrl_.d tp_lamb_.d tp_lion_.d
tp_loss_scale_.d tp_optimizer_compute_gradients.o tp_gradproc_scale.regex tp_gradproc_scale_rules.rules tp_gradproc_map.fn tp_gradproc_map.regex
tp_gradproc_summary.regex tp_gradproc_print.regex tp_exponential_decay.step tp_piecewise_constant.step
tp_datapoint_free.dp tp_df_test_speed.per_second tp_df_seek.skipped tp_df_free.df tp_df_print.name tp_input_failure.sentence tp_input_free.s
tp_callback_free.cb tp_monitor_free.m tp_inferencer_free.inf tp_hyper_param_free.p tp_load_existing_epoch_number.dir
tp_load_existing_json.dir tp_load_existing_stats.dir tp_trainer_free.t tp_trainer_initialize.init tp_export_c.d tp_export_c_text.d
tp_export_c_text.info tp_export_onnx.d tp_export_onnx_buf.d tp_export_compact.d tp_export_serving.d
tp_import_onnx.d tp_import_onnx_parse.d tp_model_exporter_free.x tp_init_values.values tp_hash.p tp_crc32.data
tp_crc32c.data tp_reduce_sum.axes tp_reverse.axes tp_transpose.perm tp_reuse_session_creator.s
tp_session_creator_adapter.a tp_callback_set_unsaved.fmt tp_post_process.fn tp_variable_assignment.fn tp_regularize_cost_.name tp_regularize_cost_.regex tp_regex_free.re tp_regularize_cost.regex tp_add_param_summary.regex tp_regex_search.spans
tp_parse_double.end tp_parse_float.end tp_regex_match.spans tp_regex_fullmatch.spans tp_pool_threads.p tp_pool_run.p tp_device_parallel.d tp_memory_in_use.most tp_npy_parse.what
tp_safetensors_parse.what tp_logger_set_dir.dir tp_logger_set_rank_dir.dir tp_apply.g tp_apply_ex.g tp_placeholder.name tp_monitors_put_scalar.m
tp_monitors_put_int.m tp_monitors_put_image.m tp_monitors_put_summary.m tp_monitors_put_event.m
tp_sym_accuracy.name tp_sym_prediction_incorrect.name tp_sym_rms.name tp_sym_huber_loss.name tp_sym_psnr.name
tp_sym_contrastive_loss.name tp_sym_siamese_cosine_loss.name tp_sym_triplet_loss.name tp_sym_soft_triplet_loss.name
tp_sym_class_balanced_sigmoid_cross_entropy.name tp_tower_func_towers.f tp_export_c_text.out tp_session_run.feeds tp_exec_run.feeds
tp_make_feed.node tp_make_feed.data tp_tfrecord_append.data tp_tfrecord_put.data tp_tfrecord_close.r tp_vocabulary_free.v
tp_session_run_ex.o tp_session_run_ex.feeds tp_session_run_ex.values tp_exec_run_ex.o tp_exec_run_ex.feeds tp_exec_run_ex.values tp_trace_free.t
""".split()
# What the function takes over, also when it fails.
TAKES = """
tp_aug_list.augs tp_aug_random_choose.augs tp_aug_random_order.augs tp_aug_random_apply.aug tp_aug_free.a
tp_df_batch_.d tp_dataflow_to_dataset.df tp_dataset_input.df tp_remap_input_source.input tp_input_default_prefetch.input tp_df_cast.df tp_df_repeated.df tp_df_take.df tp_df_shard.df tp_df_select.df tp_df_print.df tp_df_concat.dfs tp_df_join.dfs tp_df_zip.dfs tp_df_repeated_point.df
tp_apply_default_prefetch.df tp_trainer_setup_graph.input tp_trainer_register_callback.cb tp_trainer_register_callback_ex.cb
tp_trainer_setup_callbacks.callbacks tp_trainer_setup_callbacks.monitors tp_trainer_initialize.init
tp_launch_train_with_config.t tp_launch_train_with_config.c tp_cb_proxy.cb tp_cb_group.cbs tp_chain_init.inits
tp_callback_set_chief_only.cb
tp_df_free.df tp_input_free.s tp_callback_free.cb tp_monitor_free.m tp_inferencer_free.inf tp_hyper_param_free.p
tp_trainer_free.t tp_graph_free.g tp_session_free.s tp_exec_free.e tp_hooked_session_free.h tp_predictor_free.p
tp_session_init_free.i tp_model_exporter_free.x tp_regex_free.re tp_pool_free.p tp_queue_free.q tp_mutex_free.m tp_cond_free.c tp_writer_commit.w
tp_tfrecord_close.r tp_writer_abort.w tp_npz_close.w tp_npz_abort.w tp_free.p tp_realloc.p tp_free_aligned.p tp_thread_join.t tp_thread_detach.t
""".split()

# How to make a good argument: by function and parameter, by parameter and type, by type.
BY_PARAM = {
    # nodes of other kinds than float32 (2,4)
    "*.labels": "node_labels()", "*.indices": "node_labels()", "*.segment_ids": "node_labels()", "tp_top_k.indices": "node_out()", "tp_select.cond": "node_bool()", "*.pred": "node_pred()",
    "tp_logical_and.a": "node_bool()", "tp_logical_and.b": "node_bool()", "tp_logical_or.a": "node_bool()",
    "tp_logical_or.b": "node_bool()", "tp_logical_not.a": "node_bool()", "tp_reduce_all.x": "node_bool()",
    "tp_reduce_any.x": "node_bool()", "tp_matmul.b": "node_square()", "tp_matmul_ex.b": "node_square()",
    "tp_nn_conv2d.x": "node_image()", "tp_nn_conv2d.w": "node_filter()",
    "tp_nn_conv2d_input_grad.dy": "node_image2()", "tp_nn_conv2d_input_grad.w": "node_filter()",
    "tp_nn_conv2d_input_grad.x_like": "node_image()", "tp_nn_conv2d_filter_grad.x": "node_image()",
    "tp_nn_conv2d_filter_grad.dy": "node_image2()", "tp_nn_conv2d_filter_grad.w_like": "node_filter()",
    "tp_nn_bias_add.b": "node_row()", "tp_nn_max_pool.x": "node_image()", "tp_nn_avg_pool.x": "node_image()",
    "tp_resize_bilinear.x": "node_image()", "tp_resize_nearest.x": "node_image()",
    "tp_bilinear_sampler.image": "node_image()", "tp_bilinear_sampler.coords": "node_coords()",
    "*.gamma": "node_row()", "*.beta": "node_row()", "tp_nn_batch_norm_infer.mean": "node_row()",
    "tp_nn_batch_norm_infer.var": "node_row()", "tp_nn_group_norm.x": "node_image4()", "tp_nn_group_norm.axis": "3", "tp_nn_batch_norm_train.axis": "1", "tp_nn_batch_norm_infer.axis": "1",
    "tp_softmax_cross_entropy.labels": "node()", "tp_sigmoid_cross_entropy.labels": "node()",
    "tp_ctc_loss.logits": "node_sequence()", "tp_ctc_loss.labels": "node_label_table()",
    "tp_ctc_loss.label_lengths": "node_labels()", "tp_ctc_loss.logit_lengths": "node_labels()",
    "tp_nn_lstm.x": "node_sequence()", "tp_nn_lstm.kernel": "node_of(8, 16)", "tp_nn_lstm.bias": "node_of1(16)",
    "tp_nn_lstm.h0": "node()", "tp_nn_lstm.c0": "node()", "tp_nn_gru.x": "node_sequence()",
    "tp_nn_gru.gates": "node_of(8, 8)", "tp_nn_gru.gates_bias": "node_of1(8)", "tp_nn_gru.candidate": "node_of(8, 4)",
    "tp_nn_gru.candidate_bias": "node_row()", "tp_nn_attention.q": "node_sequence()",
    "tp_nn_attention.k": "node_sequence()", "tp_nn_attention.v": "node_sequence()",
    "tp_squeeze.x": "tp_expand_dims(node(), 0)", "tp_squeeze.axis": "0", "tp_gather.params": "node()",
    "tp_assign.var": "node_variable()", "tp_assign_add.var": "node_variable()", "tp_assign_sub.var": "node_variable()",
    "tp_read_after.var": "node_variable()", "tp_assign_moving_average.var": "node_variable()",
    "tp_optimizer_slot.var": "node_variable()", "tp_get_slot.var": "node_variable()",
    "*.lr": "node_scalar()", "tp_exponential_decay.lr": "0.1f", "tp_cosine_decay.lr": "0.1f", "tp_predictor_carry.output": "0", "tp_predictor_carry.input": "0", "tp_sym_weighted_loss.losses": "node_labels_float()",
     "tp_cosine_decay.step": "NULL", "tp_warm_up.step": "NULL", "*.beta1_power": "node_scalar()",
    "*.beta2_power": "node_scalar()", "tp_gradients.y": "node_scalar()", "tp_gradients_from.y": "node_scalar()",
    "tp_gradients_from.dy": "NULL", "*.cost": "node_cost()", "tp_exponential_decay.step": "NULL",
    "tp_piecewise_constant.step": "NULL", "*.similar": "node_labels_float()",
    "tp_sym_class_balanced_sigmoid_cross_entropy.labels": "node()", "tp_depth_to_space.x": "node_image4()",
    "tp_space_to_depth.x": "node_image4()", "tp_layer_variable.y": "node_of_layer()", "tp_layer_apply.x": "node()",
    "tp_conv2d_.x": "node_image()", "tp_max_pooling_.x": "node_image()", "tp_avg_pooling_.x": "node_image()",
    "tp_global_avg_pooling_.x": "node_image()", "tp_conv2d_transpose_.x": "node_image()",
    "tp_depthwise_conv2d_.x": "node_image()", "tp_fixed_unpooling_.x": "node_image()",
    "tp_caffe_bilinear_upsample_.x": "node_image()", "tp_layer_norm_.x": "node_image()",
    "tp_instance_norm_.x": "node_image()", "tp_group_norm_.x": "node_image4()", "tp_grid_sample_.x": "node_image()",
    "tp_embedding_.x": "node_labels()", "tp_lstm_.x": "node_sequence()", "tp_gru_.x": "node_sequence()",
    "tp_multi_head_attention_.x": "node_sequence()", "tp_bn_relu.x": "node()", "tp_one_hot.indices": "node_labels()",
    "tp_sparse_softmax_cross_entropy.labels": "node_labels()",
    # lists
    "*.vars": "list_variables()", "*.accums": "list_variables2()", "*.ms": "list_variables2()",
    "*.vs": "list_variables3()", "*.moms": "list_variables3()", "*.mgs": "NULL", "*.updates": "list_variables3()",
    "*.linears": "list_variables3()", "*.grads": "list_nodes()", "tp_gradients.xs": "list_scalar()",
    "tp_gradients_from.xs": "list_scalar()", "tp_add_moving_summary_n.scalars": "list_scalar()",
    "tp_gradients.n": "1", "tp_gradients_from.n": "1", "tp_add_moving_summary_n.n": "1",
    "tp_dependency_of_fetches.lists": "list_of_lists()", "tp_dependency_of_fetches.n_lists": "1",
    "tp_dependency_of_fetches.n": "ints()", "tp_tower_all_reduce.n": "2", "tp_tower_func_call.in": "list_nodes()",
    "*.dxs": "nodes_out()", "*.ys": "nodes_out()", "tp_split.out": "nodes_out()", "tp_unstack.out": "nodes_out()",
    "tp_split.n": "2", "tp_unstack.n": "2", "tp_build_on_towers.outputs": "nodes_out()",
    "tp_input_get_tensors.in": "nodes_out()", "tp_reduce_sum.n_axes": "1", "*.n_axes": "1", "*.border": "0", "*.transpose_a": "false", "*.transpose_b": "false",
    "tp_aug_random_choose.prob": "NULL", "tp_aug_apply_coords.points": "points()",
    # texts
    "*.path": 'a_path("x.npz")', "*.dir": "a_dir()", "*.isa": "NULL", "*.prefix": '"p/"', "*.regex": '"fc.*/W"',
    "tp_get_all_checkpoints.prefix": '"model"', "tp_tf_checkpoint_load.prefix": 'a_path("tf")',
    "tp_tf_checkpoint_save.prefix": 'a_path("tf")', "tp_idx_load.path": 'a_path("idx")', "tp_logger_set_rank_dir.dir": 'a_path("log")', "tp_logger_set_dir.dir": 'a_path("log")',
    "tp_logger_auto_set_dir.program": 'a_path("prog")', "*.action": "'k'", "tp_get_registered_layer.name": '"Conv2D"',
    "tp_get_argscope.layer": '"Conv2D"', "tp_argscope_set.layer": '"Conv2D"', "tp_layer_apply.layer": '"FullyConnected"',
    "tp_layer_apply.desc": "&fully_connected", "tp_argscope_set.desc": "&conv2d_options",
    "tp_layer_variable.key": '"W"', "tp_graph_find.name": '"variable"', "tp_find_variable.name": '"variable"',
    "tp_graph_find_operation.name": '"variable"', "tp_op_find.name": '"relu"', "*.command": '"true"',
    "tp_df_new.name": '"mine"', "*.fmt": "no_format", "tp_name_scope_push.name": '"scope"',
    "tp_import_onnx_parse.data": "bytes", "tp_import_onnx_parse.size": "sizeof bytes",
    # numbers
    "*.threads": "1", "tp_cpu_devices_new.n": "1", "tp_pool_run.n": "3", "*.ndim": "2", "*.axis": "0", "*.heads": "2",
    "tp_tower_all_reduce.what": '"test"', "*.depth": "4", "*.keep_dims": "false", "tp_tensor_get.i": "0",
    "tp_tensor_set.i": "0", "tp_calloc.n": "4", "tp_calloc.size": "4", "tp_malloc.size": "16", "tp_random_permutation.n": "2",
    "tp_alloc_aligned.size": "16", "tp_realloc.size": "16", "tp_arena_alloc.size": "16", "tp_graph_alloc.size": "16",
    "tp_convert.n": "2", "tp_convert.dst_dtype": "TP_F32", "tp_convert.src_dtype": "TP_F32", "tp_vec_sum.n": "2",
    "tp_vec_dot.n": "2", "tp_vec_max.n": "2", "tp_vec_adam.n": "2", "tp_hash.n": "4", "tp_crc32.n": "4",
    "tp_crc32c.n": "4", "tp_buf_put.n": "4", "tp_file_read.limit": "0", "tp_writer_put.size": "4",
    "tp_inflate.in_size": "4", "tp_inflate.out_size": "4", "tp_inflate_alloc.in_size": "4", "tp_inflate_alloc.limit": "100",
    "tp_deflate.in_size": "4", "*.size": "4", "*.bytes": "8", "*.k": "1", "*.topk": "1", "tp_graph_operation.i": "0",
    "tp_slice.size": "int64s_one()", "tp_slice.begin": "int64s_zero()", "tp_pad.before": "int64s_one()",
    "tp_pad.after": "int64s_one()", "tp_tile.multiples": "int64s_one()", "tp_transpose.n": "0", "tp_transpose.perm": "NULL",
    "*.decay_steps": "10", "*.boundaries": "int64s_rising()", "*.margin": "1.0f", "*.delta": "1.0f", "*.maxp": "1.0f",
    "tp_datapoint_resize.n": "2", "tp_df_select.indices": "ints_zero()", "tp_df_select.n": "1",
    "tp_df_cast.index": "0", "*.num": "2", "tp_df_test_speed.n": "2", "tp_df_shard.rank": "0", "tp_df_shard.n_ranks": "2", "tp_df_test_speed.warmup": "1",
    "tp_input_setup.n": "1", "tp_input_setup.specs": "a_spec()", "tp_tower_func_new.specs": "a_spec()",
    "tp_tower_func_new.n": "1", "tp_monitors_put_image.image": "an_image()", "tp_accum_grad.niter": "2",
    "tp_param_field.field": "doubles", "tp_param_field.dtype": "TP_F64", "tp_init_values.n": "2",
    "tp_const_as.dtype": "TP_F32", "*.types": "0", "tp_enable_argscope_for_module.types": "a_layer_type()",
    "tp_enable_argscope_for_module.n": "1", "tp_slice.x": "node()", "tp_piecewise_constant.n": "1",
    "tp_device_parallel.n": "2", "*.scratch": "scratch", "tp_request_fetch.r": "NULL", "tp_request_feed.r": "NULL", "tp_request_trace.r": "NULL", "tp_request_wait.r": "NULL", "tp_request_datapoints.r": "NULL", "tp_trace_save.path": 'a_path("trace.json")',
    "tp_callback_before_run.r": "a_request()", "tp_getter_next.call": "NULL", "tp_thread_join.t": "NULL", "tp_thread_detach.t": "NULL", "tp_free.p": "tp_malloc(4)", "tp_realloc.p": "tp_malloc(4)", "tp_free_aligned.p": "tp_alloc_aligned(4)", "tp_exec_free.e": "tp_exec_new(session())", "tp_make_dirs.path": 'a_path("made")', "tp_export_serving.dir": 'a_path("served")',
    "tp_kernel_fault.k": "a_call()", "tp_kernel_fault.value": "1", "tp_infer_fail.s": "an_infer()",
    "tp_export_c.path": 'a_path("x.c")', "tp_export_onnx.path": 'a_path("x.onnx")', "tp_import_onnx.path": 'a_path("in.onnx")',
    "tp_export_compact.path": 'a_path("compact.npz")', "tp_file_read.path": 'a_file("bytes")',
    "tp_state_put_i64.key": '"a"', "tp_get_slot.slot": '"m"', "tp_hash_name.s": '"x"',
    "tp_humanize_time_delta.buf": "text_out", "tp_shape_text.buf": "text_out", "tp_checkpoint_state_latest.path": "text_out",
    "tp_checkpoint_state_latest.size": "sizeof text_out", "tp_apply.attrs": "NULL", "tp_apply.n_in": "1",
    "tp_apply.row": 'tp_op_find("relu")', "tp_apply.in": "list_nodes()", "tp_depth_to_space.n": "2",
    "tp_space_to_depth.n": "2", "tp_reshape_to.shape": "shape_of(4, 2)", "tp_session_init_free.i": "an_init_given()",
    "tp_exec_set_random_step.step": "1", "tp_layer_hold.n": "node()", "tp_restore_collection.b": "a_backup()",
    "tp_graph_to_dot.n": "2", "tp_linear_n.n": "1", "tp_session_load.value": "a_tensor24()",
    "tp_session_device.i": "0", "tp_graph_variable.i": "0", "tp_tower_func_tower.i": "0",
    "tp_cast.dtype": "TP_F64", "tp_trainer_set_seed.seed": "1", "tp_philox.out": "u32s",
    "tp_load_checkpoint_vars.path": 'a_checkpoint()', "tp_restore_checkpoint.path": 'its_model(s_)', "tp_npz_load.path": "a_checkpoint()",
    "tp_chain_init.inits": "list_inits()", "tp_load_existing_epoch_number.dir": "a_dir()",
    "tp_predict.input": "tensors_in()", "tp_predict_n.inputs": "tensors_in()", "tp_predict_n.n_inputs": "1", "tp_predict_n.n_outputs": "1", "tp_op_registry.i": "0", "tp_import_onnx_operator.i": "0",
    "tp_default_callbacks.list": "callbacks_out", "tp_default_monitors.list": "monitors_out",
    "tp_init_fill.init": "an_initial()", "tp_init_fill.t": "a_tensor24()", "tp_tensor_get.t": "a_tensor24()",
    "tp_tensor_set.t": "a_tensor24()", "tp_npy_parse.data": "bytes", "tp_npy_parse.size": "sizeof bytes",
    "tp_rand_uniform.high": "1.0f", "tp_clip.high": "1.0f", "tp_nn_dropout.rate": "0.5f",
    "tp_df_per_pixel_mean.index": "0", "tp_df_per_channel_mean.index": "0", "tp_tfrecord_open.path": "a_tfrecord()",
    "tp_vocabulary_find.size": "word_ ? strlen(word_) : 4", "tp_vocabulary_chars.path": "a_text()", "tp_vocabulary_words.path": "a_text()", "tp_vocabulary_save.path": 'a_path("words.txt")', "tp_vocabulary_load.path": "a_text()", "tp_lmdb_save.path": 'a_path("x.mdb")',
    "tp_df_save_tfrecord.n": "1", "*.channels": "3", "tp_vocabulary_words.max_words": "3", "tp_tfrecord_next.data": "&data_out",
    "tp_smart_init_list.list": "smart_sources", "tp_rand_uniform_like.high": "1.0f", "tp_df_repeated.num": "2",
    "tp_remap_input_source.names": "names_x", "tp_remap_input_source.n": "1", "tp_remap_input_source.input": "input_ready()",
    "tp_dummy_constant_input.n": "1", "tp_dataflow_to_dataset.n": "1",
}
BY_TYPE = {
    "tp_node *": "node()", "const tp_node *": "node()", "tp_node *const *": "list_nodes()", "tp_node **": "node_out()",
    "tp_graph *": "graph()", "const tp_graph *": "graph()", "const char *": '"name"', "int": "2", "int64_t": "2",
    "size_t": "4", "float": "0.5f", "double": "0.5", "bool": "true", "uint64_t": "3", "uint32_t": "3",
    "uint16_t": "3", "char": "'k'", "tp_dtype": "TP_F32", "tp_shape": "shape_of(2, 4)", "tp_status": "TP_ERR",
    "const tp_smart_source *": "smart_sources", "tp_at": "here", "const tp_at *": "&here", "tp_init": "tp_init_zeros()", "tp_log_level": "TP_LOG_DEBUG",
    "tp_session *": "session()", "const tp_session *": "session()", "tp_exec *": "tp_session_exec(session())",
    "const tp_exec *": "tp_session_exec(session())", "tp_hooked_session *": "hooked()",
    "const tp_hooked_session *": "hooked()", "tp_device *": "device()", "const tp_device *": "device()",
    "void *": "scratch", "const void *": "bytes", "char *": "text_out", "char **": "&chars_out", "size_t *": "sizes_out",
    "int *": "ints_out", "int64_t *": "int64s_out", "double *": "doubles", "float *": "floats", "const float *": "floats",
    "const double *": "doubles", "const int *": "ints_zero()", "const int64_t *": "int64s_one()",
    "const tp_shape *": "a_shape()", "const tp_dtype *": "dtypes", "tp_tensor *": "tensor_out()", "const tp_tensor *": "a_tensor24()",
    "const tp_tensor **": "tensors_out", "tp_dict *": "dict()", "const tp_dict *": "dict()", "tp_buf *": "buf()",
    "tp_arena *": "arena()", "tp_queue *": "queue()", "tp_pool *": "pool()", "const tp_pool *": "pool()", "tp_chunk_fn": "no_chunk",
    "tp_thread **": "&thread_out", "tp_mutex *": "mutex()", "tp_cond *": "cond()", "tp_writer **": "&writer_out",
    "tp_writer *": "writer()", "tp_npz_writer **": "&npz_out", "tp_npz_writer *": "npz()",
    "tp_kernel_fn": "no_kernel", "tp_device **": "&device_out", "const tp_call *": "a_call()",
    "const tp_graph_config *": "NULL", "const tp_apply_desc *": "&apply_relu()", "const tp_op *": 'tp_op_find("relu")',
    "tp_infer *": "an_infer()", "const tp_variable *": "variable()", "tp_variable *const *": "list_of_variables()",
    "const tp_variable_desc *": "&variable_desc", "tp_variable_desc *": "&variable_desc",
    "const tp_variable_scope_desc *": "&variable_scope", "tp_fan_mode": "TP_FAN_IN", "tp_distribution": "TP_DIST_NORMAL",
    "const tp_init *": "an_initial()", "const tp_tower_desc *": "&tower_desc", "const tp_towers_desc *": "&towers_desc",
    "tp_tower_build_fn": "tower_function", "tp_build_fn": "build_function", "tp_tower_func *": "tower_func()",
    "const tp_tower_func *": "tower_func()", "tp_tower_handles": "tp_tower_func_towers(tower_func(), TP_TOWERS_ALL)",
    "tp_towers": "TP_TOWERS_ALL", "const tp_tower_handle *": "tower_handle()", "const tp_spec *": "a_spec()",
    "const tp_operation *": "node()->op", "const tp_conv2d_attrs *": "&conv_attrs", "const tp_pool_attrs *": "&pool_attrs",
    "const tp_resize_attrs *": "&resize_attrs", "const tp_ctc_attrs *": "NULL", "tp_getter_call *": "NULL",
    "const tp_moving_summary_desc *": "NULL", "const tp_session_config *": "&one_thread", "const tp_feed *": "feeds()",
    "tp_plan_info *": "&plan_info", "tp_run_request *": "NULL", "tp_hook *const *": "list_hooks()", "tp_hook *": "a_hook()",
    "tp_session_adapter *": "adapter()", "tp_session_init *": "an_init()", "const tp_saver_restore_desc *": "&restore_desc",
    "tp_session_init *const *": "list_inits()", "const char *const *": "names", "tp_checkpoint_entry **": "&entries_out", "tp_stat_entry **": "&records_out",
    "const tp_predict_config *": "predict_config()", "tp_predictor *": "predictor()", "const tp_predictor *": "predictor()",
    "const tp_collection_backup *": "a_backup()", "const tp_layer *": "&a_layer", "const tp_layer_type *": "a_layer_type()",
    "tp_regularizer": "tp_l2_regularizer(0.1f)", "tp_data_format": "TP_NHWC", "tp_grad_var *": "gvs()",
    "const tp_grad_var *": "gvs()", "tp_optimizer *": "optimizer()", "const tp_optimizer *": "optimizer()",
    "tp_apply_fn": "NULL", "tp_post_process_fn": "post_process", "tp_assignment_fn": "assignment",
    "const tp_optimizer_part *": "parts_of_an_optimizer()", "const tp_gradproc *": "gradprocs()", "const tp_grad_rule *": "&a_rule", "tp_datapoint *": "datapoint()",
    "const tp_datapoint *": "datapoint()", "tp_dataflow *": "dataflow()", "const tp_dataflow *": "dataflow()",
    "tp_dataflow *const *": "list_dataflows()", "tp_input_source *": "input_ready()",
    "const tp_input_source *": "input_ready()", "const char **": "&text_in", "tp_train_state *": "train_state()",
    "tp_callback *": "callback()", "tp_stop_flag *": "NULL", "tp_tensor_filter_fn": "filter_nothing", "const tp_callback *": "callback()", "const tp_run_values *": "&run_values",
    "tp_monitor *const *": "list_monitors()", "tp_monitors *": "monitors()", "const tp_monitors *": "monitors()",
    "tp_monitor *": "monitor()", "const tp_summary *": "&a_summary", "tp_event *": "&an_event", "tp_stat *": "&stat_out",
    "const tp_stat **": "&stats_out", "tp_callback *const *": "list_callbacks()", "tp_inferencer *": "inferencer()",
    "tp_hyper_param *": "hyper_param()", "tp_trainer *": "trainer()", "const tp_trainer *": "trainer()",
    "const tp_model *": "&a_model", "const tp_train_desc *": "&train_desc", "const tp_train_config *": "train_config()",
    "const tp_cluster *": "&a_cluster", "tp_job *": "&job_out",
    "tp_train_config *": "resume_config()", "const tp_export_c_desc *": "NULL", "const tp_export_onnx_desc *": "NULL",
    "tp_export_c_info *": "&export_info", "tp_model_exporter *": "exporter()", "const tp_export_compact_desc *": "NULL",
    "const tp_export_serving_desc *": "NULL", "const tp_import_onnx_desc *": "NULL", "tp_onnx_model *": "&onnx_model",
    "tp_node *const *const *": "list_of_lists()", "tp_callback **": "callbacks_out", "tp_monitor **": "monitors_out",
    "tp_tfrecord_reader **": "&record_reader_out", "tp_tfrecord_reader *": "record_reader()", "tp_vocabulary *": "vocabulary()",
    "const tp_vocabulary *": "vocabulary()", "tp_map_call *": "&a_map_call", "const void **": "&data_out", "uint32_t *": "u32s", "tp_regex **": "&regex_out", "tp_regex *": "regex()", "const tp_regex *": "regex()",
    "tp_augmentor *": "augmentor()", "const tp_augmentor *": "augmentor()", "tp_augmentor *const *": "list_augmentors()",
    "tp_transform *": "transform()", "const tp_transform *": "transform()",
    "bool *": "&bool_out", "tp_span *": "spans", "tp_trace *": "&trace_out", "const tp_trace *": "&trace_out", "const tp_run_options *": "&run_options", "tp_memory_use *": "&memory_out", "tp_gradproc": "tp_gradproc_check()",
}
# Fields of descriptors that a good call needs; the others stay zero.
FIELDS = {
    "tp_sync_multi_gpu_trainer_replicated_desc": "d.n_devices = 2", "tp_async_multi_gpu_trainer_desc": "d.n_devices = 2",
    "tp_sync_multi_gpu_trainer_parameter_server_desc": "d.n_devices = 2",
    "tp_aug_map_image_desc": "d.fn = map_pixels", "tp_aug_resize_desc": "d.h = 2",
    "tp_aug_resize_shortest_edge_desc": "d.size = 2", "tp_aug_random_resize_desc": "d.xrange[0] = 1, d.xrange[1] = 2",
    "tp_aug_random_crop_random_shape_desc": "d.wmin = d.hmin = 1",
    "tp_aug_random_cutout_desc": "d.h_range[0] = d.w_range[0] = 1", "tp_aug_paste_desc": "d.h = 9",
    "tp_aug_flip_desc": "d.horiz = TP_YES", "tp_aug_rotation_desc": "d.max_deg = 1",
    "tp_aug_rotation_and_crop_valid_desc": "d.max_deg = 1", "tp_aug_brightness_desc": "d.delta = 1",
    "tp_aug_brightness_scale_desc": "d.range[0] = d.range[1] = 1",
    "tp_aug_contrast_desc": "d.factor_range[0] = d.factor_range[1] = 1", "tp_aug_lighting_desc": "d.std = 1",
    "tp_aug_color_space_desc": "d.mode = TP_COLOR_RGB2BGR",
    "tp_df_augment_image_desc": "d.df = dataflow_given(), d.augmentors = augmentor_given()",
    "tp_df_augment_coordinates_desc": "d.df = pairs_given(&pair_with_points), d.augmentors = augmentor_given()",
    "tp_df_augment_images_desc": "d.df = pairs_given(&pair_of_images), d.augmentors = augmentor_given()",
    "tp_df_load_image_desc": "d.df = pairs_given(&path_alone), d.augmentors = augmentor_given()",
    "tp_conv2d_desc": 'd.name = "layer", d.filters = 2, d.kernel_size = 1',
    "tp_fully_connected_desc": 'd.name = "layer", d.units = 2',
    "tp_pooling_desc": 'd.name = "layer", d.pool_size = 2', "tp_max_pooling_desc": 'd.name = "layer", d.pool_size = 2',
    "tp_avg_pooling_desc": 'd.name = "layer", d.pool_size = 2', "tp_global_avg_pooling_desc": 'd.name = "layer"',
    "tp_batch_norm_desc": 'd.name = "layer", d.training = TP_YES', "tp_dropout_desc": "d.training = TP_YES",
    "tp_bn_relu_desc": 'd.name = "layer"', "tp_conv2d_transpose_desc": 'd.name = "layer", d.filters = 2, d.kernel_size = 1',
    "tp_depthwise_conv2d_desc": 'd.name = "layer", d.kernel_size = 1', "tp_fixed_unpooling_desc": 'd.name = "layer", d.shape = 2',
    "tp_caffe_bilinear_upsample_desc": 'd.name = "layer", d.shape = 2', "tp_layer_norm_desc": 'd.name = "layer"',
    "tp_instance_norm_desc": 'd.name = "layer"', "tp_group_norm_desc": 'd.name = "layer", d.groups = 2',
    "tp_batch_renorm_desc": 'd.name = "layer", d.rmax = 2.0f, d.dmax = 1.0f', "tp_prelu_desc": 'd.name = "layer"',
    "tp_maxout_desc": "d.num_unit = 2", "tp_concat_with_desc": "d.tensor = node(), d.dim = 1",
    "tp_grid_sample_desc": "d.coords = node_coords()", "tp_softmax_layer_desc": 'd.name = "layer"',
    "tp_embedding_desc": 'd.name = "layer", d.vocab = 4, d.units = 2', "tp_lstm_desc": 'd.name = "layer", d.units = 2',
    "tp_gru_desc": 'd.name = "layer", d.units = 2',
    "tp_basic_lstm_cell_desc": 'd.name = "layer", d.units = 2', "tp_gru_cell_desc": 'd.name = "layer", d.units = 2',
    "tp_multi_head_attention_desc": 'd.name = "layer", d.heads = 2',
    "tp_df_from_list_desc": "d.points = datapoint(), d.n = 1", "tp_df_from_arrays_desc": "d.arrays = a_tensor24(), d.n = 1",
    "tp_df_from_generator_desc": "d.fn = generate", "tp_df_fake_desc": "d.specs = a_known_spec(), d.n = 1",
    "tp_df_mnist_desc": 'd.which = "train", d.dir = data_dir()', "tp_df_digits_desc": 'd.which = "train", d.size = 4',
    "tp_df_cifar10_desc": 'd.which = "test", d.dir = data_dir()', "tp_df_cifar100_desc": 'd.which = "test", d.dir = data_dir()',
    "tp_df_svhn_digit_desc": 'd.which = "test", d.dir = data_dir()',
    "tp_df_npz_desc": 'd.path = a_checkpoint()', "tp_df_tfrecord_desc": "d.paths = records_files(), d.n = 1",
    "tp_df_csv_desc": "d.path = a_text(), d.columns = &a_column, d.n = 1", "tp_df_text_chars_desc": "d.path = a_text(), d.sequence_length = 2",
    "tp_df_text_words_desc": "d.path = a_text(), d.batch_size = 1, d.sequence_length = 2", "tp_df_image_from_file_desc": 'd.files = data_files("class/0.png"), d.n = 1',
    "tp_df_image_folder_desc": "d.dir = data_dir()", "tp_df_image_list_desc": 'd.list = data_file("list.txt"), d.dir = data_dir()', "tp_df_lmdb_desc": 'd.path = a_path("x.mdb")',
    "tp_df_idx_desc": 'd.paths = data_files("train-images-idx3-ubyte"), d.n = 1', "tp_df_batch_desc": "d.df = dataflow_given(), d.batch_size = 2",
    "tp_df_map_desc": "d.df = dataflow_given(), d.fn = map_nothing",
    "tp_df_map_component_desc": "d.df = dataflow_given(), d.fn = map_component",
    "tp_df_fixed_size_desc": "d.df = dataflow_given(), d.size = 2",
    "tp_df_locally_shuffle_desc": "d.df = dataflow_given(), d.buffer_size = 2", "tp_df_filter_desc": "d.df = dataflow_given()",
    "tp_df_random_choose_desc": "d.dfs = list_dataflows_given(), d.n = 2", "tp_df_random_mix_desc": "d.dfs = list_dataflows_given(), d.n = 2",
    "tp_df_prefetch_desc": "d.df = dataflow_given()", "tp_df_parallel_map_desc": "d.df = dataflow_given(), d.fn = map_nothing",
    "tp_df_multi_thread_desc": "d.get_df = dataflow_of_thread, d.num_thread = 2",
    "tp_df_multi_process_desc": "d.df = dataflow_given(), d.num_proc = 2",
    "tp_df_cache_desc": "d.df = dataflow_given()", "tp_df_batch_by_shape_desc": "d.df = dataflow_given(), d.batch_size = 2",
    "tp_batch_queue_input_desc": "d.df = samples_given(), d.batch_size = 2", "tp_tensor_input_desc": "d.fn = give_tensors",
    "tp_staging_input_desc": "d.input = input_queued_given()",
    "tp_feed_input_desc": "d.df = dataflow_given()", "tp_queue_input_desc": "d.df = dataflow_given()",
    "tp_cb_lambda_desc": "d.trigger = trigger_nothing", "tp_cb_periodic_trigger_desc": "d.cb = callback_given(), d.every_k_steps = 1",
    "tp_cb_enable_if_desc": "d.cb = callback_given(), d.pred = always",
    "tp_cb_periodic_callback_desc": "d.cb = callback_given(), d.every_k_steps = 1",
    "tp_cb_run_op_desc": "d.fn = make_op", "tp_cb_process_tensors_desc": 'd.names[0] = "cost", d.fn = process_nothing',
    "tp_cb_dump_tensors_desc": 'd.names[0] = "cost"', "tp_cb_simple_moving_average_desc": 'd.names[0] = "cost", d.window_size = 2',
    "tp_cb_min_saver_desc": 'd.monitor_stat = "cost"', "tp_cb_early_stopping_desc": 'd.monitor_stat = "cost"', "tp_inf_scalar_stats_desc": 'd.names[0] = "cost"',
    "tp_cb_dump_tensor_as_image_desc": 'd.tensor_name = "cost"', "tp_cb_start_proc_or_thread_desc": "d.startable[0].run = run_nothing",
    "tp_cb_inference_runner_base_desc": "d.df = dataflow_given(), d.inferencers[0] = inferencer_given(), d.build = make_nothing",
    "tp_monitor_send_data_desc": 'd.command = "true", d.names[0] = "cost"',
    "tp_inf_binary_classification_desc": 'd.pred_tensor_name = "p", d.label_tensor_name = "l"',
    "tp_cb_inference_runner_desc": "d.df = dataflow_given(), d.inferencers[0] = inferencer_given()",
    "tp_cb_hyper_param_setter_desc": 'd.name = "lr", d.fn = set_nothing',
    "tp_cb_human_hyper_param_setter_desc": 'd.name = "lr"',
    "tp_cb_scheduled_hyper_param_setter_desc": 'd.name = "lr", d.schedule[0].at = 1',
    "tp_cb_hyper_param_setter_with_func_desc": 'd.name = "lr", d.fn = same_value',
    "tp_cb_stat_monitor_param_setter_desc": 'd.name = "lr", d.stat_name = "cost", d.fn = keep_value, d.last_k = 2',
}
# Bad values beside NULL, by type: what they are called in sentences and how they are written. "!": must fail.
BAD = {
    "int": [("-1", "-1"), ("0", "0"), ("INT_MIN", "INT_MIN"), ("INT_MAX", "INT_MAX")],
    "int64_t": [("-1", "-1"), ("0", "0"), ("INT64_MIN", "INT64_MIN")],
    "tp_dtype": [("0", "TP_DTYPE_UNSET"), ("-1", "(tp_dtype)bad_enum"), ("99", "(tp_dtype)large_enum")],
    "tp_shape": [("9 dimensions", "bad_shape(9, 1)"), ("-1 dimensions", "bad_shape(-1, 1)"),
                 ("a dimension of -5", "bad_shape(2, -5)"), ("dimensions of 2^40", "bad_shape(4, (int64_t)1 << 40)")],
    "const char *": [('""', '""'), ("300 letters", "long_text()"), ('":/ "', '":/ "')],
    "tp_node *": [("a node of another graph", "node_of_another_graph()"), ("poison of no graph", "tp_relu(no_node)")],
    "tp_node *const *": [("a list with a NULL", "list_with_null()")],
    "tp_data_format": [("99", "(tp_data_format)large_enum")],
    "tp_init": [("of an unknown kind", "bad_initial()")], "char": [("'x'", "'x'")],
}
# A count or index that may not take this value, although its array is there: a crash would be the caller's, or it takes long.
NOT_TRIED = """
INT_MAX:*.n INT_MAX:*.n_inputs INT_MAX:*.n_outputs INT_MAX:*.n_feeds INT_MAX:*.n_fetches INT_MAX:*.n_hooks INT_MAX:*.n_keys
INT_MAX:*.n_in INT_MAX:*.n_lists INT_MAX:*.n_axes INT_MAX:*.n_callbacks INT_MAX:*.n_monitors INT_MAX:*.threads INT_MAX:*.ndim
INT_MAX:tp_sym_weighted_loss.classes INT_MAX:tp_df_print.num INT_MAX:*.n_spans 300:tp_send_stat.command
""".split()
# Bad values that must fail; others must only be survived.
MUST_FAIL = """
-1:*.n -1:*.n_inputs -1:*.n_fetches -1:*.n_feeds -1:*.n_hooks 0:tp_add_n.n 0:tp_concat.n 0:tp_stack.n 0:tp_global_norm.n
0:tp_all_reduce.n 0:tp_split.n 0:tp_unstack.n 99:tp_const_as.dtype -1:tp_const_as.dtype 99:tp_cast.dtype -1:tp_cast.dtype
99:tp_placeholder.dtype -1:tp_placeholder.dtype 99:tp_get_variable_as.dtype -1:tp_get_variable_as.dtype
99:tp_tensor_resize.dtype -1:tp_tensor_resize.dtype 9:tp_placeholder.shape 9:tp_get_variable_as.shape 9:tp_reshape_to.shape
9:tp_rand_uniform.shape poison:*.x poison:*.a poison:*.b poison:*.lr poison:*.logits
""".split()


def prototypes():
    for h in HEADERS:
        text = open(os.path.join(ROOT, "tp_%s.h" % h)).read()
        text = text[: text.index("===== STOP HERE")]
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        text = re.sub(r"\\\n", " ", text)
        text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
        found = 0
        for m in re.finditer(r"\bTP_DEF\s+([^;{]*?)\b(tp_\w+)\s*\(((?:[^()]|\([^()]*(?:\([^()]*\)[^()]*)*\))*)\)"
                             r"\s*(?:TP_PRINTF\([^)]*\))?\s*;", text):
            found += 1
            parts, depth, part = [], 0, ""
            for c in " ".join(m.group(3).split()) + ",":
                depth += {"(": 1, ")": -1}.get(c, 0)
                if c == "," and depth == 0:
                    parts.append(part.strip())
                    part = ""
                else:
                    part += c
            if not m.group(2).startswith("tp__"):
                yield " ".join(m.group(1).split()), m.group(2), [parameter(p) for p in parts if p != "void"]
        if found != len(re.findall(r"\bTP_DEF\b", text)):
            sys.exit("tp_%s.h: a declaration with TP_DEF was not understood" % h)


def parameter(text):
    """type, name, how it is declared"""
    if text == "...":
        return "...", "...", text
    m = re.search(r"\(\*(\w+)\)", text)
    if m:
        return "function", m.group(1), text.replace("(*%s)" % m.group(1), "(*%s_)" % m.group(1))
    m = re.match(r"(.*?)(\w+)(\[\w*\])?$", text)
    kind = m.group(1).strip().replace("const struct ", "const ").replace("struct ", "")
    if m.group(3):
        kind += "*" if kind.endswith("*") else " *"
        return kind, m.group(2), kind + m.group(2) + "_"
    return kind, m.group(2), m.group(1) + m.group(2) + "_"


def listed(table, fn, name):
    return fn + "." + name in table or "*." + name in table or fn + ".*" in table


def at_value(table, label, fn, name, kind="int"):
    word = label.split()[0]
    return word + ":" + fn + "." + name in table or (word + ":*." + name in table and table is not MUST_FAIL or word + ":*." + name in table and kind != "int64_t")


FUNCTIONS = {"fn": {"tp_remap_variables_push": "remap", "tp_gradproc_map": "map_gradient", "tp_thread_start": "no_thread"}}


def good(fn, kind, name):
    for key in (fn + "." + name, "*." + name):
        if key in BY_PARAM and not (key.startswith("*") and kind not in ("const char *", "char", "int", "int64_t", "size_t", "float", "bool", "tp_node *", "const tp_node *", "tp_node *const *", "tp_node **", "const int64_t *", "void *")):
            return BY_PARAM[key]
    if kind == "function":
        return FUNCTIONS[name][fn]
    if kind.endswith("_desc *") and kind.startswith("const ") and fn.endswith("_"):
        return "&d"
    return BY_TYPE[kind]


def is_pointer(kind):
    return "*" in kind or kind in ("function", "tp_chunk_fn", "tp_kernel_fn", "tp_tower_build_fn", "tp_build_fn",
                                   "tp_post_process_fn", "tp_assignment_fn", "tp_apply_fn")


def result_of(ret):
    return {
        "tp_status": "got_status", "tp_node *": "got_node", "tp_callback *": "got_callback", "tp_monitor *": "got_monitor",
        "tp_inferencer *": "got_inferencer", "tp_dataflow *": "got_dataflow", "tp_input_source *": "got_input",
        "tp_session *": "got_pointer", "tp_predictor *": "got_predictor", "tp_session_init *": "got_init",
        "tp_hyper_param *": "got_hyper_param", "tp_monitors *": "got_monitors", "tp_trainer *": "got_trainer",
        "tp_model_exporter *": "got_exporter", "tp_optimizer *": "got_optimizer", "tp_pool *": "got_pool", "tp_augmentor *": "got_augmentor", "tp_queue *": "got_queue",
        "tp_mutex *": "got_mutex", "tp_cond *": "got_cond", "tp_device *": "got_device", "tp_exec *": "got_pointer",
        "tp_hooked_session *": "got_hooked",
    }.get(ret)


# Pointers that only answer a question, or lie in something that is freed with the world.
QUESTIONS = """tp_device_ready tp_session_device tp_session_exec tp_hooked_session_exec tp_predictor_session tp_session_graph tp_node_graph
tp_proxy_inner tp_model_exporter_session tp_predictor_tower tp_graph_find tp_get_slot tp_tower_handle_get tp_tower_handle_get_variable tp_callback_find
tp_trainer_monitors""".split()
FREED = {"tp_malloc": "tp_free", "tp_calloc": "tp_free", "tp_realloc": "tp_free", "tp_strdup": "tp_free",
         "tp_alloc_aligned": "tp_free_aligned"}
OWN = {"tp_session_new": "got_session", "tp_exec_new": "got_exec", "tp_graph_new": "got_graph"}


def emit(ret, fn, params):
    labels, lines, args = [("good arguments", "S" if fn in NO_GOOD_CALL else "?" if fn in MAY_FAIL else "G")], [], []
    given = []
    for i, (kind, name, declared) in enumerate(params):
        if kind == "...":
            continue
        value = good(fn, kind, name)
        if listed(TAKES, fn, name):
            value = value.replace("()", "_given()") if value.endswith("()") and "_given" not in value else value
        choices = []
        if is_pointer(kind):
            if kind != "void *" and kind != "const void *" or not listed(NULL_OK, fn, name):
                choices.append(("NULL", "NULL", "?" if listed(NULL_OK, fn, name) else "!"))
        for label, text in BAD.get(kind, []):
            if at_value(NOT_TRIED, label, fn, name):
                continue
            choices.append((label, text, "!" if at_value(MUST_FAIL, label, fn, name, kind) and (fn, name) != ("tp_graph_to_dot", "n") else "?"))
        if value.startswith("list_") and value.endswith("_given()"):
            given.append((len(lines), value, i + 1))
        text = value
        for label, bad, must in reversed(choices):
            labels.append((name + " = " + label, must))
            text = "which == %d ? %s : %s" % (len(labels) - 1, bad, text)
        if kind == "function":
            lines.append("%s = %s;" % (declared, "which == %d ? NULL : %s" % (len(labels) - 1, value)))
        elif choices and bad == "NULL" and len(choices) == 1 and value == "NULL":
            lines.append("%s = NULL;" % declared)
        else:
            lines.append("%s = %s;" % (declared, text))
        args.append(name + "_")
    for line, value, count in given:  # a list of none is not filled
        bad = [i for i, l in enumerate(labels) if l[0].split(" = ")[0] == params[count][1] and l[0] != "NULL"]
        lines[line] = lines[line].replace(value, "(%s) ? NULL : %s" % (" || ".join("which == %d" % b for b in bad), value))
    if any(v == "&d" for v in [good(fn, k, n) for k, n, _ in params if k != "..."]):
        kind = [k for k, n, _ in params if k.endswith("_desc *") and good(fn, k, n) == "&d"][0]
        plain = kind.replace("const ", "").replace(" *", "")
        labels.append(("a descriptor of zeros", "?"))
        fields = FIELDS.get(plain)
        need = "v != 0" if False else "which != %d" % (len(labels) - 1)
        dn = [n for k, n, _ in params if k == kind][0]
        takes = " && %s" % " && ".join("which != %d" % i for i, l in enumerate(labels) if l[0] == dn + " = NULL")
        lines.insert(0, "%s desc;\n    memset(&desc, 0, sizeof desc);" % plain +
                     ("\n    if (%s%s) %s;" % (need, takes if takes != " && " else "", fields.replace("d.", "desc.")) if fields else ""))
        lines = [l.replace("&d;", "&desc;") for l in lines]
    call = "%s(%s)" % (fn, ", ".join(args))
    done = result_of(ret) if fn not in QUESTIONS else None
    done = OWN.get(fn, done)
    if fn in FREED:
        body = "%s(%s);\n    got_answer();" % (FREED[fn], call)
    elif done:
        body = "%s(%s);" % (done, call)
    elif ret == "void" or ret == "tp_graph *" and fn not in QUESTIONS:  # the graph that it was given
        body = "%s;\n    got_nothing();" % call
    else:
        body = "(void)%s;\n    got_answer();" % call
    out = "static void call_%s(int which)\n{\n    (void)which;\n" % fn
    out += "".join("    %s\n" % l for l in lines) + "    " + body + "\n}\n"
    out += "static const char *const cases_%s[] = {%s, NULL};\n" % (
        fn, ", ".join('"%s%s"' % (m, l.replace("\\", "\\\\").replace('"', '\\"')) for l, m in labels))
    return out


def generate():
    out = ["/* Written by tests/gen_misuse.py: python3 tests/gen_misuse.py */", "/* clang-format off */"]
    names, wrong = [], []
    for ret, fn, params in prototypes():
        if fn in SKIP:
            continue
        try:
            out.append(emit(ret, fn, params))
            names.append(fn)
        except KeyError as e:
            wrong.append("%s: there is no way to make %s: see BY_PARAM and BY_TYPE in tests/gen_misuse.py" % (fn, e))
    known = {fn: [p[1] for p in params] for _, fn, params in prototypes()}
    for table in (NULL_OK, TAKES, list(BY_PARAM)):
        for entry in table:
            fn, name = entry.split(".", 1)
            if fn != "*" and (fn not in known or (name != "*" and name not in known[fn])):
                wrong.append("tests/gen_misuse.py speaks of %s, which is not declared" % entry)
    if wrong:
        sys.exit("\n".join(wrong))
    out.append("static const misuse_call misuse_calls[] = {")
    out += ["    {\"%s\", call_%s, cases_%s}," % (n, n, n) for n in names]
    out.append("};")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    path = os.path.join(ROOT, "tests", "misuse_calls.h")
    text = generate()
    if "--check" in sys.argv:
        if not os.path.exists(path) or open(path).read() != text:
            sys.exit("tests/misuse_calls.h is not current: python3 tests/gen_misuse.py")
    else:
        open(path, "w").write(text)
